// SPDX-License-Identifier: BSD-3-Clause
//! The process title, from the configured template.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use braid_base::process_title::TitleArea;
use braid_config::{Config, fill_template};
use parking_lot::Mutex;

/// A title that can be displayed.
pub struct Title {
    area: TitleArea,
    /// The program name as invoked.
    program: String,
    config_file: String,
}

impl Title {
    /// Prepares to show the title, if the configuration asks for it and the system allows it.
    /// After this call the process's arguments must not be read again. No other thread may exist
    /// yet.
    pub fn claim(config: &Config, program: &str, config_file: Option<&Path>) -> Option<Title> {
        if !config.set_proc_title() {
            return None;
        }
        // SAFETY: `serve` calls this once, on the first thread, before there are others, and
        // after it has read the arguments.
        let area = unsafe { TitleArea::claim() }?;
        let config_file = config_file.map_or("-".into(), |file| file.display().to_string());
        Some(Title { area, program: program.to_owned(), config_file })
    }

    /// Shows the title, and updates it when its settings change.
    pub fn show_and_follow(mut self, config: &Arc<Config>) {
        self.show(config);
        let shared = Mutex::new(self);
        config.on_change(&["proc-title-template", "port", "tls-port", "bind"], move |config| {
            shared.lock().show(config);
            Ok(())
        });
    }

    fn show(&mut self, config: &Config) {
        let filled = fill_template(&config.proc_title_template(), |name| self.value(config, name));
        // An invalid template was refused earlier.
        if let Some(title) = filled {
            self.area.set(title.trim_matches(' ').as_bytes());
        }
    }

    fn value<'a>(&'a self, config: &Config, name: &str) -> Option<Cow<'a, str>> {
        let (port, tls_port) = (config.port(), config.tls_port());
        Some(match name {
            "title" => (&*self.program).into(),
            "config-file" => (&*self.config_file).into(),
            "listen-addr" if port == 0 && tls_port == 0 => {
                format!("unixsocket:{}", config.unixsocket()).into()
            }
            "listen-addr" => {
                let bind = config.bind();
                let address =
                    bind.first().map_or("*", |address| address.strip_prefix('-').unwrap_or(address));
                format!("{address}:{}", if port != 0 { port } else { tls_port }).into()
            }
            "server-mode" => if config.cluster_enabled() { "[cluster]" } else { "" }.into(),
            "port" => port.to_string().into(),
            "tls-port" => tls_port.to_string().into(),
            "unixsocket" => config.unixsocket().to_string().into(),
            _ => return None,
        })
    }
}

// SPDX-License-Identifier: BSD-3-Clause
use super::*;

fn parsed(line: &str) -> Result<Options, String> {
    let mut words = words(line).unwrap_or_default();
    let is_compare = words.first().is_some_and(|word| word == "compare");
    if is_compare {
        words.remove(0);
    }
    match parse(&mut Arguments::from_words(words), is_compare)? {
        Request::Run(options) => Ok(*options),
        _ => Err("not a run".into()),
    }
}

#[test]
fn defaults_match_redis_benchmark() {
    let options = parsed("").unwrap();
    let method = &options.method;
    assert_eq!((method.threads, method.connections, method.requests), (1, 50, Some(100_000)));
    assert_eq!((method.iterations, method.rate, method.duration), (1, None, None));
    let case = &options.cases[0];
    assert_eq!((case.pipeline, &case.load.sizes, case.load.keys.count), (1, &Sizes::Fixed(3), None));
    assert!(options.cases.len() > 15);
}

#[test]
fn familiar_names_are_understood() {
    let line = "-h 10.0.0.1 -p 7000 -c 20 -n 5000 -d 64 -P 16 -r 1000 --threads 4 -t get,set -q";
    let options = parsed(line).unwrap();
    assert_eq!(options.target.host.as_deref(), Some("10.0.0.1"));
    let titles: Vec<&str> = options.cases.iter().map(|case| case.title.as_str()).collect();
    assert_eq!(titles, ["SET", "GET"]);
    assert_eq!(
        (options.cases[0].pipeline, options.method.threads, options.output.form),
        (16, 4, Form::Quiet)
    );
    let line = "--server h --ratio=1:10 --key-pattern=G:S --key-maximum=500 --data-size=100 --pipeline=4 \
                --test-time=3 --clients=5 --threads=2 --run-count=3 --hide-progress";
    let options = parsed(line).unwrap();
    assert_eq!((options.method.connections, options.method.duration), (10, Some(Duration::from_secs(3))));
    let load = &options.cases[0].load;
    assert_eq!((load.kinds[0].weight, load.kinds[1].weight), (1, 10));
    assert_eq!(load.kinds[1].pattern, Pattern::Sequential);
    assert_eq!((load.keys.count, options.method.iterations, options.method.requests), (Some(500), 3, None));
}

#[test]
fn a_command_takes_the_rest_of_the_line() {
    let options = parsed("-n 10 eval 'return 1' 0 -q").unwrap();
    assert_eq!(options.cases[0].title, "eval return 1 0 -q");
    assert_eq!(options.output.form, Form::Text);
    let line =
        "--command 'SET __key__ __data__' --command-ratio 3 --command 'GET __key__' --command-key-pattern Z";
    let options = parsed(line).unwrap();
    let kinds = &options.cases[0].load.kinds;
    assert_eq!((kinds[0].weight, kinds[1].weight, kinds[1].name.as_str()), (3, 1, "GET"));
    assert_eq!(kinds[1].pattern, Pattern::Zipf { exponent: 0.99 });
}

#[test]
fn lists_make_every_combination() {
    let options = parsed("--ratio 1:10,1:1 -P 1,16 -d 32,512 --rate 1000 -c 10").unwrap();
    assert_eq!(options.cases.len(), 8);
    assert_eq!(options.cases[7].label(), "SET:GET 1:1, pipeline 16, 512 bytes");
    let options = parsed("-t set -d 32:9,1k:1 --rate-limiting 10 -c 10 --arrival poisson").unwrap();
    assert_eq!(options.cases.len(), 1);
    assert_eq!(options.method.rate, Some(Rate { per_second: 100.0, poisson: true }));
}

#[test]
fn comparisons_name_servers_models_and_threads() {
    let options =
        parsed("compare --models parallel,handoff -P 1,16 'braid-server --x 1' --rounds 3").unwrap();
    let comparison = options.comparison.unwrap();
    assert_eq!(comparison.rounds, 3);
    assert_eq!(comparison.contenders[1].name, "handoff");
    assert_eq!(comparison.contenders[1].command, "braid-server --x 1 --threading-model handoff");
    let line = "compare --server-threads 1,2 one='a/b --io {threads}' redis://h:1/?x=1";
    let contenders = parsed(line).unwrap().comparison.unwrap().contenders;
    let seen: Vec<(&str, &str)> = contenders.iter().map(|c| (c.name.as_str(), c.command.as_str())).collect();
    assert_eq!(seen[1], ("one", "a/b --io 2"));
    assert_eq!(seen[2].0, "redis://h:1/?x=1");
    assert_eq!(parsed("compare x").unwrap().method.duration, Some(Duration::from_secs(1)));
}

#[test]
fn nonsensical_bench_options_are_refused() {
    for line in [
        "-c 0",
        "-P 0",
        "-P x",
        "--rate 0",
        "--nothing",
        "-t nothing",
        "--ratio 0:0",
        "--ratio 1",
        "-t get PING",
        "-c 5 --clients 5",
        "--threads 9 -c 3",
        "--fill -t get",
        "-n 0",
        "--cpus x",
        "--rate 5 -k 0",
        "compare",
        "--duration x",
        "--key-pattern R:X",
        "-r 5 --key-minimum 5 PING",
        "--rounds 3",
        "--command-ratio 1",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn lines_are_split_like_a_shell_does() {
    assert_eq!(words(r#"a "b c" 'd\' e\ f """#).unwrap(), ["a", "b c", r"d\", "e f", ""]);
    assert!(words("a 'b").is_err());
    assert!(words("  ").is_err());
}

// SPDX-License-Identifier: BSD-3-Clause
//! Lists of networks (`priority-subnets`): addresses and CIDR blocks, separated by spaces or
//! commas.

use std::net::IpAddr;

/// A block of addresses of one family.
struct Subnet {
    address: IpAddr,
    /// Number of leading bits that count.
    prefix: u32,
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([' ', ',']).filter(|word| !word.is_empty())
}

fn parse(word: &str) -> Option<Subnet> {
    let (address, prefix) = match word.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (word, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = match prefix {
        Some(text) if is_number(text) => text.parse().ok().filter(|prefix| *prefix <= bits)?,
        Some(_) => return None,
        None => bits,
    };
    Some(Subnet { address, prefix })
}

impl Subnet {
    fn contains(&self, ip: IpAddr) -> bool {
        // A shift by all bits is no shift at all.
        match (self.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                (own.to_bits() ^ ip.to_bits()).checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                (own.to_bits() ^ ip.to_bits()).checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Checks a list.
pub(crate) fn check(list: &str) -> Result<(), &'static str> {
    let is_valid = words(list).all(|word| parse(word).is_some());
    if is_valid { Ok(()) } else { Err("Invalid IP address or CIDR subnet") }
}

/// True if an address is in one of the listed networks. An IPv4 address that arrived over IPv6 is
/// that IPv4 address.
pub fn lists(list: &str, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    words(list).filter_map(parse).any(|subnet| subnet.contains(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_their_networks() {
        for (list, ip, is_listed) in [
            ("127.0.0.1/32 10.0.0.0/8", "127.0.0.1", true),
            ("127.0.0.1/32 10.0.0.0/8", "127.0.0.2", false),
            ("127.0.0.1/32,10.0.0.0/8", "10.255.3.4", true),
            ("127.0.0.1/32, 10.0.0.0/8", "11.0.0.0", false),
            ("192.0.2.128/25", "192.0.2.127", false),
            ("192.0.2.129/25", "192.0.2.255", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1 ::1", "::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("", "10.0.0.1", false),
        ] {
            assert_eq!(check(list), Ok(()), "{list}");
            assert_eq!(lists(list, ip.parse().unwrap()), is_listed, "{list}: {ip}");
        }
    }

    #[test]
    fn invalid_networks() {
        for list in
            ["127.0.0.1/99", "invalid/24", "10.0.0", "10.0.0.0/", "10.0.0.0/+8", "::1/129", "1.1.1.1 x"]
        {
            assert_eq!(check(list), Err("Invalid IP address or CIDR subnet"), "{list}");
        }
    }
}

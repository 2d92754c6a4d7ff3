//! Spellings, and that whatever is taken can be shown and read again.

use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> String {
    Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

fn refused(text: &str) -> String {
    Target::parse(text).expect_err(text).to_string()
}

#[test]
fn l12_spellings() {
    for (written, url) in [
        ("3000", "http://localhost:3000/"),
        ("3000/p", "http://localhost:3000/p"),
        (":3000/a", "http://localhost:3000/a"),
        (":3000", "http://localhost:3000/"),
        ("/a", "http://localhost:3000/a"),
        ("/", "http://localhost:3000/"),
        ("localhost:3000/a", "http://localhost:3000/a"),
        ("127.0.0.1:3000", "http://127.0.0.1:3000/"),
        ("[::1]:3000/a", "http://[::1]:3000/a"),
        ("http://localhost", "http://localhost/"),
        ("https://app.test/x", "https://app.test/x"),
        ("HTTPS://App.Test:8443/X", "https://app.test:8443/X"),
        ("https://localhost:80/", "https://localhost:80/"),
        ("http://[0:0::1]", "http://[::1]/"),
        ("unix:/run/app.sock:/hooks?x=1", "unix:/run/app.sock:/hooks?x=1"),
        ("unix:/run/app.sock", "unix:/run/app.sock:/"),
    ] {
        assert_eq!(shown(written), url, "{written}");
    }
}

#[test]
fn query_and_trailing_slash_stay_as_they_are() {
    for path in ["/hooks/", "/hooks", "/h?a=1&b=%20", "/h/?", "/a//b/../c", "/x?u=http://y/z:1", "/%7Eme;v=1"]
    {
        assert_eq!(shown(&format!("3000{path}")), format!("http://localhost:3000{path}"));
        assert_eq!(Target::parse(&format!("http://h{path}")).unwrap().path_and_query(), path);
    }
    assert_eq!(shown("3000?a=1"), "http://localhost:3000/?a=1");
    assert_eq!(shown("http://h?a=1"), "http://h/?a=1");
}

#[test]
fn faults_are_named_with_what_to_write() {
    for (written, part) in [
        ("", "the target is empty"),
        ("ftp://x", "scheme `ftp`"),
        ("http:///a", "no host"),
        ("http://", "no host"),
        ("http://:3000/a", "no host"),
        ("//host/a", "no host"),
        ("http:/localhost", "needs two slashes"),
        ("http:localhost:3000", "needs two slashes"),
        ("localhost:/a", "port ``"),
        ("http://h:99999", "port `99999`"),
        ("0", "port `0`"),
        ("70000/x", "port `70000`"),
        ("localhost:+80", "port `+80`"),
        ("localhost:30o0", "port `30o0`"),
        ("localhost", "write localhost:3000"),
        ("myapp/hooks", "write myapp:3000"),
        ("[::1]/x", "write [::1]:3000"),
        ("::1", "stands in brackets"),
        ("fe80::1/x", "stands in brackets"),
        ("[::1:3000", "bracket is not closed"),
        ("[localhost]:3000", "only an IPv6 address"),
        ("[::1]3000", "after the bracket"),
        ("u:p@localhost:3000", "--header"),
        ("http://me@localhost:3000", "--header"),
        ("3000/a b", "position 7"),
        (" 3000", "position 1"),
        ("3000/a\n", "position 7"),
        ("3000/a#b", "fragment"),
        ("3000/é", "`é` in the path"),
        ("http://bücher.de/", "xn--"),
        ("127.1:3000", "four decimal numbers"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("a..b:3000", "empty or an overlong part"),
        ("a$b:3000", "letters, digits"),
        ("unix:app.sock", "unix:/absolute"),
        ("unix://app.sock", "unix:/absolute"),
        ("unix:", "unix:/absolute"),
    ] {
        assert!(refused(written).contains(part), "{written}: {}", refused(written));
    }
}

#[test]
fn loopback_is_decided_on_the_parsed_form() {
    for (written, loopback) in [
        ("3000", true),
        ("app.localhost:3000", true),
        ("localhost.:3000", true),
        ("127.9.9.9:3000", true),
        ("[::1]:3000", true),
        ("[::ffff:127.0.0.1]:3000", true),
        ("unix:/run/app.sock", true),
        ("[::ffff:10.0.0.1]:3000", false),
        ("0.0.0.0:3000", false),
        ("localhost.example.com:3000", false),
        ("127.0.0.1.example.com:3000", false),
        ("notlocalhost:3000", false),
        ("192.168.1.2:3000", false),
    ] {
        assert_eq!(Target::parse(written).unwrap().is_loopback(), loopback, "{written}");
    }
}

#[test]
fn loopback_is_decided_on_a_hosts_text_too() {
    let here = ["localhost", "LOCALHOST.", "a.localhost", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"];
    let elsewhere =
        ["", "localhost.example.com", "127.0.0.1.example.com", "[localhost]", "0.0.0.0", "10.0.0.1", "::"];
    assert_eq!(here.map(host_is_loopback), here.map(|_| true));
    assert_eq!(elsewhere.map(host_is_loopback), elsewhere.map(|_| false));
}

#[test]
fn the_host_header_leaves_the_schemes_own_port_out() {
    let host = |text: &str| Target::parse(text).unwrap().host_header();
    assert_eq!(host("http://localhost:80/x"), "localhost");
    assert_eq!(host("https://[::1]/x"), "[::1]");
    assert_eq!(host("3000"), "localhost:3000");
    assert_eq!(host("unix:/run/app.sock"), "localhost");
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_taken_reads_back(text in "\\PC{0,40}|[a-z0-9:/?.\\[\\]@%-]{0,30}") {
        if let Ok(target) = Target::parse(&text) {
            prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
        }
    }

    /// A URL parser must not see another host or port than we do.
    #[test]
    fn url_parsers_agree(text in "[a-zA-Z0-9.-]{1,12}(:[0-9]{1,5})?(/[a-z0-9/?=&.]{0,12})?") {
        if let Ok(target) = Target::parse(&format!("http://{text}")) {
            // They also check what follows `xn--`.
            let Ok(url) = url::Url::parse(&target.to_string()) else { return Ok(()) };
            let Place::Tcp { host, port, .. } = target.place() else { panic!("not TCP") };
            let host = host.to_string();
            prop_assert_eq!(url.host_str(), Some(host.as_str()));
            prop_assert_eq!(url.port_or_known_default(), Some(*port));
        }
    }
}

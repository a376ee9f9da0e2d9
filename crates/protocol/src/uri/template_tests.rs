//! Which URIs templates match, and that hostile templates cost no more than others.

use proptest::prelude::*;

use super::*;

impl Template {
    fn fits(&self, uri: &str) -> bool {
        let mut work = Work::of(10_000_000);
        let fits = self.matches(uri, &mut work);
        assert!(!work.is_spent());
        fits
    }
}

#[test]
fn templates_of_every_level() {
    for (template, yes, no) in [
        ("test://static", &["test://static"][..], &["test://statics", "test://stati", ""][..]),
        (
            "test://template/{id}/data",
            &["test://template/123/data", "test://template/a%2Fb,ü@x/data", "test://template//data"],
            &["test://template/1/2/data", "test://template/123", "test://template/1?/data"],
        ),
        ("a://{x}/{y}", &["a://1/2", "a:///"], &["a://1", "a://1/2/3", "b://1/2"]),
        ("a://{x,y}", &["a://1,2", "a://1"], &["a://1/2"]),
        ("a://{x}-{y}.txt", &["a://1-2.txt", "a://a-b-c.txt.txt"], &["a://12.txt", "a://1-2.md"]),
        ("file:///{+path}", &["file:///a/b/c.txt", "file:///a?b#c"], &["file://a"]),
        ("a://x{#f}", &["a://x", "a://x#", "a://x#one/two"], &["a://xy", "a://x?f"]),
        ("a://x{.f}", &["a://x", "a://x.tar.gz"], &["a://xtar", "a://x.a/b"]),
        ("a:/{/x,y}", &["a:/", "a://1", "a://1/2"], &["a://1/2/3", "a:/1"]),
        ("a:/{/x*}", &["a:/", "a://1/2/3/4", "a:///"], &["a:/1", "a://1?2"]),
        ("a:/{/x,y*}/z", &["a:/1/2/3/z", "a://1/2/3/z", "a://z"][1..], &["a:/1/2/3/z", "a://1/2"]),
        ("a://x{;p,q}", &["a://x", "a://x;p=1;q=2", "a://x;p"], &["a://xp=1", "a://x;p=1/2"]),
        ("a://x{?q,r}", &["a://x", "a://x?q=1&r=2", "a://x?r=2", "a://x?q=a/b"], &["a://x&q=1", "a://xy"]),
        ("a://x?k=1{&q}", &["a://x?k=1", "a://x?k=1&q=2"], &["a://x", "a://x?k=1#q", "a://x?k=12"]),
        ("a://{x:3}", &["a://", "a://abc", "a://üöä", "a://%20%41c", "a://longer than three"], &["a://ab/c"]),
        ("a://{x}{y:3}", &["a://abcdefgh", "a://a"], &["a://a/bcde"]),
        ("a://{x:3}bc", &["a://abc", "a://abcbc", "a://abbbc"], &["a://ab", "a://abcd"]),
        ("{+any}", &["", "a://b/c?d#e"], &[]),
        ("a://{user-id}/{a.b}{_c}", &["a://1/2"], &["a://1"]),
    ] {
        let template = Template::parse(template);
        for uri in yes {
            assert!(template.fits(uri), "{} and {uri}", template.as_str());
        }
        for uri in no {
            assert!(!template.fits(uri), "{} and {uri}", template.as_str());
        }
    }
}

#[test]
fn text_without_a_template_matches_only_itself() {
    let long = format!("a://{}{{x}}", "y".repeat(MAX_TEMPLATE));
    let many = format!("a://{}", "{x}".repeat(MAX_PARTS));
    for text in [
        "a://{",
        "a://}",
        "a://{}",
        "a://{x",
        "a://x}",
        "a://{{x}}",
        "a://{x y}",
        "a://{=x}",
        "a://{!x}",
        "a://{|x}",
        "a://{@x}",
        "a://{x:0}",
        "a://{x:10000}",
        "a://{x:-1}",
        "a://{x:}",
        "a://{x:3*}",
        "a://{x*3}",
        "a://{x**}",
        "a://{x,}",
        "a://{,x}",
        "a://{+}",
        "a://{ü}",
        "a://{x:99999999999999999999}",
        &long,
        &many,
    ] {
        let template = Template::parse(text);
        assert!(template.fits(text), "{text}");
        assert!(!template.fits("a://1") && !template.fits(""), "{text}");
        assert_eq!(template.prefix(), text);
    }
}

#[test]
fn a_uri_beyond_the_cap_is_not_made_from_a_template() {
    let template = Template::parse("a://{x}");
    let longest = format!("a://{}", "x".repeat(MAX_URI - 4));
    assert!(template.fits(&longest) && !template.fits(&format!("{longest}x")));
}

/// Hostile templates cost at most a few steps for each byte of the URI and each part.
#[test]
fn matching_costs_at_most_one_pass_for_each_part() {
    let uri = format!("a://{}!", "a".repeat(MAX_URI - 5));
    for part in ["{a}", "{+a}", "{/a*}", "a{x}", "{x:3}", "{.a}", "{a}{+b}a", "{+a}a{+b}a"] {
        let repeats = (2..100).find(|n| parts(&part.repeat(*n)).is_none_or(|all| all.len() > MAX_PARTS - 2));
        let template = Template::parse(&format!("a://{}b", part.repeat(repeats.expect("a cap") - 1)));
        let template = Template {
            parts: template.parts.map(|mut parts| {
                parts.pop();
                parts
            }),
            ..template
        };
        let mut work = Work::of(usize::MAX);
        template.matches(&uri, &mut work);
        let (spent, parts) = (usize::MAX - work.0, template.parts.as_ref().expect("a template").len());
        assert!(spent <= 4 * parts * uri.len(), "{part}: {spent} steps for {parts} parts");
        let mut short = Work::of(100);
        assert!(!template.matches(&uri, &mut short) || !short.is_spent(), "{part}");
    }
    let long_literals = format!("{{+a}}{}{{+b}}{}", "a".repeat(1_000), "a".repeat(1_000));
    assert!(!Template::parse(&long_literals).fits(&uri));
}

proptest! {
    #[test]
    fn a_template_matches_what_is_made_from_it(
        parts in prop::collection::vec(("[a-z/:.]{0,4}", 0..8_usize, "[a-zA-Z0-9%,=._~-]{0,6}"), 0..6),
    ) {
        let (mut template, mut uri) = (String::new(), String::new());
        for (literal, kind, value) in &parts {
            template.push_str(literal);
            uri.push_str(literal);
            let (expression, lead) = [
                ("{v}", ""), ("{+v}", ""), ("{#v}", "#"), ("{.v}", "."), ("{/v}", "/"), ("{;v}", ";v="),
                ("{?v}", "?v="), ("{&v*}", "&"),
            ][*kind];
            template.push_str(expression);
            uri.push_str(lead);
            uri.push_str(value);
        }
        prop_assert!(Template::parse(&template).fits(&uri), "{} and {}", template, uri);
    }

    #[test]
    fn no_text_panics(template in any::<String>(), uri in any::<String>(), braces in "[{}a:*,+/?#;&.%3ü]{0,24}") {
        for text in [&template, &braces] {
            let template = Template::parse(text);
            let _ = (template.fits(&uri), template.fits(&braces), template.prefix());
            // Text outside of braces is literal.
            let has_braces = text.contains(['{', '}']);
            prop_assert!(has_braces || template.fits(text));
        }
    }
}

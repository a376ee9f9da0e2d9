//! Ends of grants: the year after a consent, and codes and tokens that are used twice.

use std::collections::HashSet;

use futures_util::future::join_all;

use super::tests::{CALLBACK, code_form, logged_in, refresh_form, token};
use super::*;

#[tokio::test]
async fn year_of_a_grant_counts_from_its_own_consent_and_no_refresh_prolongs_it() {
    const DAY: u64 = 24 * 3_600;
    let (mut site, person, client, mut first) = logged_in().await;
    let start = site.now;
    for _ in 0..4 {
        site.wait(80 * DAY);
        // Only one of these writes.
        let form = refresh_form(&client, &first);
        let answers = join_all((0..8).map(|_| token(&site, &form))).await;
        first = answers.into_iter().next().expect("an answer").expect("tokens");
    }
    let code = site.log_in(&person, &client, CALLBACK).await;
    let mut second = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    let grants = site.server.grants(Some("key:ann"), site.now).await.expect("grants");
    let made: HashSet<_> = grants.iter().map(|grant| seconds(grant.made)).collect();
    assert_eq!(made, HashSet::from([seconds(start), seconds(site.now)]), "each has its own consent");
    site.wait(45 * DAY - 1);
    first = token(&site, &refresh_form(&client, &first)).await.expect("a second before the end");
    second = token(&site, &refresh_form(&client, &second)).await.expect("tokens");
    site.wait(1);
    let ended = token(&site, &refresh_form(&client, &first)).await.expect_err("a year later");
    assert_eq!(ended.description, "the login has expired");
    for _ in 0..4 {
        site.wait(79 * DAY);
        second = token(&site, &refresh_form(&client, &second)).await.expect("tokens");
    }
    site.wait(4 * DAY - 1);
    second = token(&site, &refresh_form(&client, &second)).await.expect("a second before the end");
    site.wait(1);
    assert!(token(&site, &refresh_form(&client, &second)).await.is_err(), "a year after the second consent");
}

#[tokio::test]
async fn token_that_is_used_twice_is_counted_and_other_ends_are_not() {
    let (mut site, person, client, first) = logged_in().await;
    let next = token(&site, &refresh_form(&client, &first)).await.expect("tokens");
    let code = site.log_in(&person, &client, CALLBACK).await;
    site.wait(61);
    assert!(token(&site, &code_form(&client, &code, &[])).await.is_err(), "the code has expired");
    assert_eq!(site.server.counts().reuses(), 0);
    let refused = token(&site, &refresh_form(&client, &first)).await.expect_err("it was used");
    assert!(refused.description.contains("was used before"), "{refused}");
    assert_eq!(site.server.counts().reuses(), 1);
    // The grant is gone, so a thief who repeats it counts no more.
    assert!(token(&site, &refresh_form(&client, &first)).await.is_err());
    assert!(token(&site, &refresh_form(&client, &next)).await.is_err());
    let code = site.log_in(&person, &client, CALLBACK).await;
    // A thief repeats it, many times at once.
    let form = code_form(&client, &code, &[]);
    token(&site, &form).await.expect("tokens");
    let answers = join_all((0..8).map(|_| token(&site, &form))).await;
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(site.server.counts().reuses(), 2);
}

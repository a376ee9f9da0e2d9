//! The name in the path of a request, and the parameters in its query.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;

use super::problem::Problem;
use protocol::ErrorCode;

/// The only name in a path. One that is not UTF-8 is a problem.
pub(super) struct PathName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: PathRejection| unreadable(rejection.body_text());
        let Path(name) = Path::from_request_parts(parts, state).await.map_err(refused)?;
        Ok(Self(name))
    }
}

/// The parameters of a query, or why they cannot be read.
pub(super) type Parameters<T> = Result<Query<T>, QueryRejection>;

/// Returns the parameters. `hint` names those that there are.
pub(super) fn parameters<T>(given: Parameters<T>, hint: &'static str) -> Result<T, Problem> {
    let Query(read) = given.map_err(|rejection| unreadable(rejection.body_text()).hinting(hint))?;
    Ok(read)
}

/// The refusal of a path or a query that cannot be read. `text` says why.
pub(super) fn unreadable(text: String) -> Problem {
    Problem::new(ErrorCode::InvalidRequest, text)
}

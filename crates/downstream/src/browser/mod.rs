//! Tools for pages that people open: sessions of browsers, cookies, forms, and HTML without scripts.
//!
//! Any page of Switchyard can use it. Invariants: the visitor of a page is authenticated like the sender of a request.
//! A form is accepted from a page of Switchyard only. Foreign text is escaped.
//!
//! Not here: the pages themselves (`login`), their paths (`guard`).

pub(crate) mod access;
pub(crate) mod form;
pub(crate) mod html;
pub mod sessions;

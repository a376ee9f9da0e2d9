//! Request heads, static pages and bodies: what one connection and many connections may hold.

//! A configuration document as located values, and how a part of the program reads its own share.

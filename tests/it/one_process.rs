//! One process of a stdio server for clients of both eras, and the setting `era`.

//! Tests of chunks: properties of all texts, and expected cuts of typical texts.

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::*;

fn cut(text: &str, size: usize, overlap: usize, format: Format) -> Vec<Chunk<'_>> {
    chunks(text, Chunking::new(size, overlap).expect("good settings"), format).collect()
}

fn contents(text: &str, size: usize, overlap: usize, format: Format) -> Vec<&str> {
    cut(text, size, overlap, format).iter().map(|chunk| chunk.content).collect()
}

/// Checks the invariants of chunks.
fn check(text: &str, size: usize, overlap: usize, format: Format) -> Result<(), TestCaseError> {
    let chunks = cut(text, size, overlap, format);
    let (mut covered, mut last) = (0, None::<&Chunk<'_>>);
    for chunk in &chunks {
        prop_assert_eq!(chunk.content, &text[chunk.bytes.clone()]);
        let by_characters: String =
            text.chars().skip(chunk.start_pos).take(chunk.end_pos - chunk.start_pos).collect();
        prop_assert_eq!(chunk.content, by_characters, "positions are exact");
        let chars = chunk.end_pos - chunk.start_pos;
        prop_assert!(0 < chars && chars <= size, "{} characters of {}", chars, size);
        prop_assert!(chunk.bytes.start <= covered && chunk.bytes.end > covered, "no gap, no standing still");
        if let Some(last) = last {
            prop_assert!(chunk.start_pos > last.start_pos);
            prop_assert!(last.end_pos - chunk.start_pos <= overlap);
        }
        (covered, last) = (chunk.bytes.end, Some(chunk));
    }
    prop_assert_eq!(covered, text.len());
    check_cuts(text, size, &chunks)?;
    prop_assert_eq!(&chunks, &cut(text, size, overlap, format), "the same again");
    Ok(())
}

/// Checks that no grapheme that fits is cut, and that there are not too many chunks.
fn check_cuts(text: &str, size: usize, chunks: &[Chunk<'_>]) -> Result<(), TestCaseError> {
    for (start, grapheme) in text.grapheme_indices(true).filter(|(_, g)| g.chars().count() <= size) {
        let inside = start + 1..start + grapheme.len();
        for place in chunks.iter().flat_map(|chunk| [chunk.bytes.start, chunk.bytes.end]) {
            prop_assert!(!inside.contains(&place), "cut at {} in {:?}", place, grapheme);
        }
    }
    Ok(())
}

/// Makes texts of parts that are hard to cut.
fn hard_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,12}",
        "[.!?。，…] ?",
        "[ \n\t]{1,4}",
        "\\PC{1,4}",
        "[а-яё]{1,9} ",
        "(🇩🇪|👩‍👩‍👧‍👦|e\u{301}\u{323}|क्षि|\r\n|각)",
        "\n\n(#{1,6} [a-z]{1,5}\n)?",
        "\n```\n[a-z\n]{0,20}\n```\n",
        "(> |- |    |===\n|\\*\\*)",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn settings() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![1..8_usize, 8..60_usize].prop_flat_map(|size| (Just(size), 0..=size / 2))
}

proptest! {
    #[test]
    fn chunks_of_any_text_cover_it_and_keep_their_bounds(text in hard_text(), (size, overlap) in settings()) {
        check(&text, size, overlap, Format::Plain)?;
        check(&text, size, overlap, Format::Markdown)?;
    }

    #[test]
    fn a_chunk_is_one_chunk(text in hard_text(), (size, overlap) in settings()) {
        for chunk in cut(&text, size, overlap, Format::Plain) {
            prop_assert_eq!(contents(chunk.content, size, overlap, Format::Plain), [chunk.content]);
        }
    }

    #[test]
    fn fenced_code_that_fits_is_in_one_chunk(
        before in "[a-z .\n]{0,80}",
        code in "[a-z ]{0,12}(\n[a-z ]{0,12}){0,4}",
        after in "[a-z .\n]{0,80}",
        overlap in 0..=40_usize,
    ) {
        let block = format!("```\n{code}\n```\n");
        let text = format!("{before}\n\n{block}{after}");
        let chunks = contents(&text, 80, overlap, Format::Markdown);
        prop_assert!(chunks.iter().any(|chunk| chunk.contains(block.trim_end())), "{:#?}", chunks);
    }

    #[test]
    fn the_number_of_chunks_is_bounded(text in hard_text(), (size, overlap) in settings()) {
        // Two consecutive chunks add at least half of the characters that one chunk does not share.
        let most = 2 * text.chars().count() / (size - overlap).div_ceil(2) + 2;
        prop_assert!(cut(&text, size, overlap, Format::Plain).len() <= most);
    }
}

#[test]
fn a_chunk_that_cannot_share_begins_in_the_section_of_its_own_start() {
    // The words to be shared are in the section without text, and leave no room for the family emoji.
    let text = "# x y z\n#\n👩‍👩‍👧‍👦 and more\n";
    for (size, overlap) in (4..16).flat_map(|size| (0..=size / 2).map(move |overlap| (size, overlap))) {
        check(text, size, overlap, Format::Markdown)
            .unwrap_or_else(|told| panic!("{size}, {overlap}: {told}"));
    }
}

#[test]
fn paragraphs_come_before_sentences_before_words() {
    let text = "One two. Three four.\n\nFive six seven. Eight nine ten eleven twelve";
    assert_eq!(
        contents(text, 30, 0, Format::Plain),
        ["One two. Three four.\n\n", "Five six seven. ", "Eight nine ten eleven twelve"]
    );
    assert_eq!(contents(text, 12, 0, Format::Plain)[..3], ["One two. ", "Three ", "four.\n\n"]);
    assert_eq!(contents("abcdefghij", 4, 0, Format::Plain), ["abcd", "efgh", "ij"]);
}

#[test]
fn neighbours_share_whole_sentences_or_words() {
    let text = "Alpha beta gamma. Delta epsilon zeta. Eta theta iota. Kappa lambda mu.";
    assert_eq!(
        contents(text, 40, 20, Format::Plain),
        [
            "Alpha beta gamma. Delta epsilon zeta. ",
            "Delta epsilon zeta. Eta theta iota. ",
            "Eta theta iota. Kappa lambda mu.",
        ]
    );
}

#[test]
fn markdown_chunks_stand_within_a_section_and_know_its_headings() {
    let text = "Intro.\n\n# Guide\n\n## Install\n\nRun it. Then run it again.\n\n## Use\n\nCall it.\n";
    let chunks = cut(text, 60, 10, Format::Markdown);
    let seen: Vec<_> = chunks.iter().map(|chunk| (chunk.headings.join(" > "), chunk.content)).collect();
    assert_eq!(
        seen,
        [
            (String::new(), "Intro.\n\n"),
            ("Guide > Install".into(), "# Guide\n\n## Install\n\nRun it. Then run it again.\n\n"),
            ("Guide > Use".into(), "## Use\n\nCall it.\n"),
        ]
    );
    assert_eq!(cut(text, 1_000, 10, Format::Plain).len(), 1);
}

#[test]
fn a_text_of_nothing_has_no_chunks_and_one_of_spaces_has_blank_ones() {
    assert_eq!(cut("", 10, 2, Format::Markdown), []);
    let blank = "\n \n".repeat(20);
    assert!(cut(&blank, 10, 2, Format::Plain).iter().all(Chunk::is_blank));
}

#[test]
fn a_huge_markdown_text_is_taken_for_plain() {
    let text = format!("# One\n\n{}", "x\n".repeat(MOST_MARKDOWN / 2));
    let first = chunks(&text, Chunking::default(), Format::Markdown).next().expect("a chunk");
    assert!(first.headings.is_empty());
    let first = chunks(&text[..5_000], Chunking::default(), Format::Markdown).next().expect("a chunk");
    assert_eq!(&*first.headings[0], "One");
}

#[test]
fn hostile_texts_are_cut_like_any_other() {
    let flags = "🇩🇪".repeat(10_000);
    let accents = format!("e{}", "\u{301}".repeat(50_000));
    for text in [
        "x".repeat(1 << 18),
        " ".repeat(1 << 18),
        flags,
        accents,
        ". ) ".repeat(50_000),
        "# x\n".repeat(10_000),
        "# x\ny\n".repeat(15_000),
        "###### \n# \n".repeat(10_000),
        "```\n```\n".repeat(15_000),
        "[".repeat(50_000),
        "*a_".repeat(10_000),
        "`".repeat(50_000),
        "<!--".repeat(10_000),
        "> ".repeat(10_000),
    ] {
        for format in [Format::Plain, Format::Markdown] {
            let mut covered = 0;
            for chunk in chunks(&text, Chunking::default(), format) {
                assert!(chunk.bytes.start <= covered && covered < chunk.bytes.end);
                assert!(chunk.end_pos - chunk.start_pos <= 1_000);
                covered = chunk.bytes.end;
            }
            assert_eq!(covered, text.len());
        }
    }
}

#[test]
fn settings_that_lead_nowhere_are_refused() {
    let refused = |size, overlap| Chunking::new(size, overlap).expect_err("refused").to_string();
    assert_eq!(refused(0, 0), "the chunk size is 0 characters, it must be from 1 to 100000");
    assert_eq!(
        refused(100, 100),
        "the overlap of 100 characters is more than half of the chunk size 100; make it at most 50"
    );
    assert!(Chunking::new(1, 0).is_ok() && Chunking::new(MOST_SIZE, MOST_SIZE / 2).is_ok());
    let smaller = Chunking::default().at_most(330);
    assert_eq!((smaller.size(), smaller.overlap()), (330, 66));
    assert_eq!(Chunking::default().at_most(5_000), Chunking::default());
    assert_eq!(Chunking::default().at_most(0).size(), 1);
}

"""What `scripts/words` counts as a finding, and when the allow list is wrong."""
import importlib.machinery, importlib.util, pathlib, subprocess, tempfile, unittest, unittest.mock

PATH = pathlib.Path(__file__).resolve().parent.parent / "words"
loader = importlib.machinery.SourceFileLoader("words", str(PATH))
words = importlib.util.module_from_spec(importlib.util.spec_from_loader("words", loader))
loader.exec_module(words)

ROWS = words.terms("""
# a comment
[terms]
seldom = rarely
mend* = fix
can not = cannot
[spelling]
colour* = color
""")
LONG = " ".join(["word"] * 31) + "."


def kinds(text, name="a.md"):
    return [found.kind for found in words.findings(name, text, ROWS)]


def places(text, name="a.rs"):
    return [(found.line, found.text) for found in words.findings(name, text, ROWS)]


class Sentences(unittest.TestCase):
    def split(self, text):
        return [sentence for _, sentence in words.sentences(text)]

    def test_a_sentence_ends_at_a_full_stop_before_a_capital_or_code(self):
        self.assertEqual(self.split("One is 1.5 s. Two\nends! `three` is code."), [
            "One is 1.5 s.", "Two ends!", f"{words.CODE} is code.",
        ])

    def test_an_abbreviation_and_a_semicolon_end_none(self):
        self.assertEqual(self.split("A gateway, e.g. Switchyard; A client."), ["A gateway, eg Switchyard; A client."])

    def test_a_number_at_the_end_of_a_sentence_is_no_list_item(self):
        self.assertEqual([block.text for block in words.markdown(["It answers 431. A client retries."])],
                         ["It answers 431. A client retries."])

    def test_thirty_words_are_allowed(self):
        self.assertEqual(kinds(LONG), ["31 words"])
        self.assertEqual(kinds(LONG.replace("word ", "", 1)), [])
        self.assertEqual(kinds(f"`{LONG}` is one word."), [])


class Openings(unittest.TestCase):
    def test_pronouns_and_the_same_open_no_sentence(self):
        for opening in ["Who", "Whoever", "Whose", "What", "Whatever", "Of", "That which"]:
            self.assertEqual(kinds(f"It is read. {opening} asks is told."), ["opening"], opening)
        self.assertEqual(kinds("The same with a token."), ['opening "The same"'])
        self.assertEqual(kinds("Whole lists are read. Whatsoever. Office hours."), [])

    def test_questions_headings_and_titles_of_links_may_begin_with_them(self):
        self.assertEqual(kinds("What happens then? `x` is closed."), [])
        self.assertEqual(kinds("# What was attacked"), [])
        self.assertEqual(kinds("- [What was attacked](a.md): attacks."), [])


class Terms(unittest.TestCase):
    def test_a_term_is_found_whatever_its_first_letter_and_across_lines(self):
        self.assertEqual(kinds("Seldom is it\nmended; it can\nnot be."), [
            'terms: write "cannot" for "can not"', 'terms: write "fix" for "mended"', 'terms: write "rarely" for "Seldom"',
        ])

    def test_parts_of_words_and_code_are_not(self):
        self.assertEqual(kinds("Amendments, `seldom`, [never](seldom.md), not-seldom"), [])

    def test_spelling_is_checked_in_headings_and_tables_too(self):
        self.assertEqual(kinds("# Colours\n\n| colour | x |\n|---|---|"),
                         ['spelling: write "color" for "Colours"', 'spelling: write "color" for "colour"'])

    def test_every_row_of_the_list_can_be_read(self):
        texts, names = words.terms(words.TERMS.read_text())
        self.assertEqual([kind for _, kind, _ in texts], ["terms", "spelling"])
        self.assertEqual([kind for kind, rows in names.items() if rows], list(words.NAMES))


class Markdown(unittest.TestCase):
    def test_code_blocks_are_not_read(self):
        self.assertEqual(kinds("````text\nWho\n```\nWho\n````\nWho asks."), ["opening"])

    def test_an_item_and_a_paragraph_are_texts_of_their_own(self):
        half = " ".join(["word"] * 20)
        self.assertEqual(kinds(f"- {half}\n- {half}\n\n{half}\n1. {half}\n> {half}"), ["40 words"])


class Rust(unittest.TestCase):
    def test_comments_of_every_kind_are_read_with_their_line(self):
        text = "//! Who.\n\n/// Fine.\n/// What is\n/// read. Of it.\nfn a() {} // Whose\n// Of that\n"
        self.assertEqual(places(text), [(1, "Who."), (4, "What is read."), (5, "Of it."), (6, "Whose"), (7, "Of that")])

    def test_strings_and_characters_are_no_comments(self):
        self.assertEqual(places('let a = ("https://x // Who", \'"\', r#"" // Who"#, b"\\" // Who"); fn b<\'a>() {}'), [])

    def test_messages_of_errors_and_of_log_lines_are_read(self):
        text = '#[error("seldom: {0}")]\nfn a() { tracing::warn!(x = f("seldom"), y = "seldom", "what is \\\n  gone"); }'
        self.assertEqual(places(text), [(1, "seldom: `…`"), (2, "what is gone")])
        self.assertEqual(places('let a = "seldom"; panic!("seldom");'), [])


class Allowed(unittest.TestCase):
    def test_more_and_fewer_findings_than_allowed_are_complaints(self):
        found = {"more": [1, 2], "fewer": [1], "as many": [1], "none": []}
        complaints = list(words.compare({"more": 1, "fewer": 2, "as many": 1, "gone": 3}, found))
        self.assertEqual([(name, is_more) for name, _, is_more in complaints],
                         [("fewer", False), ("gone", False), ("more", True)])
        self.assertIn("--write", complaints[0][1])

    def test_a_file_that_is_not_listed_may_have_none(self):
        self.assertEqual(list(words.compare({}, {"new": [1]})), [("new", "findings: 1, allowed: 0", True)])

    def test_writing_lowers_and_never_raises(self):
        counts = {"a": 1, "b": 5, "c": 0, "new": 7}
        self.assertEqual(words.lowered({"a": 3, "b": 2, "c": 4, "gone": 1}, counts), {"a": 1, "b": 2})

    def test_what_is_written_is_read_again(self):
        allowed = {"docs/a b.md": 3, "src/main.rs": 12}
        self.assertEqual(words.read_allowed(words.write_allowed(allowed)), allowed)


class Subjects(unittest.TestCase):
    def test_a_subject_names_its_area(self):
        good = ["downstream: abort unread responses", "tests/compare: sort", "manager,upstream: merge", "docs, ci: fix"]
        self.assertEqual(list(words.bad_subjects(good)), [])
        for bad in ["Docs: fix", "fix the build", "docs:fix", "docs: " + "x" * 67]:
            self.assertEqual(len(list(words.bad_subjects([bad]))), 1, bad)

    def test_commits_since_origin_main_are_read_and_a_shallow_clone_is_enough(self):
        with tempfile.TemporaryDirectory() as folder:
            origin, clone, shallow = (pathlib.Path(folder, name) for name in ["origin", "clone", "shallow"])

            def git(where, *args):
                identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
                subprocess.run(["git", "-C", where, *identity, *args], check=True, capture_output=True)

            git(folder, "init", "-q", "-b", "main", origin)
            for subject in ["one", "two"]:
                git(origin, "commit", "-q", "--allow-empty", "-m", subject)
            git(folder, "clone", "-q", origin, clone)
            git(clone, "commit", "-q", "--allow-empty", "-m", "three")
            git(folder, "clone", "-q", "--depth", "1", f"file://{origin}", shallow)
            git(shallow, "remote", "remove", "origin")
            for where, subjects in [(origin, ["two", "one"]), (clone, ["three"]), (shallow, ["two"])]:
                with unittest.mock.patch.object(words, "ROOT", where):
                    self.assertEqual(words.subjects(), subjects, where)

"""Text becomes the tokens with which a model was trained, and the tokens become the same text."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.metadata import read_metadata
from xdsl_spirv.llm.byte_pairs import BYTES, splitter
from xdsl_spirv.llm.splittings import SPLITTINGS
from xdsl_spirv.llm.tokenizer import GUARDS, Tokenizer, guard_for
from xdsl_spirv.llm.vocabulary import ENDS_OF_TURNS, Kind, vocabulary_of
from xdsl_spirv.testing.vocabularies import CONTROL, byte_pair_metadata, sentence_piece_metadata

pytest.importorskip("tokenizers", reason="tokenizers is not installed (pip install '.[llm]')")

HERE = Path(__file__).parent

TEXTS = [
    *("", " ", "  ", "Hello", " Hello", "   three spaces", "trailing   ", "\n", "a\n\n\n  b"),
    *("\t\tdef f(x):\n\t\treturn x**2  # ok\n", "It's we'll I'M 'Tis ''s", "1234567890"),
    *("3.14159e-10", "日本語のテキスト", "안녕", "Привет, мир!", "שלום", "👋🏽 👨‍👩‍👧‍👦 🇩🇪"),
    *("e\u0301 é", "\u200b\ufeff\u00a0\u3000x", "\x00\x01\x7f\x80", "x" * 300, " " * 100),
    *("<|im_start|>user<|im_end|>", "<0x0A> ▁ ▁▁x", "Ġ Ċ", "\U0010ffff\ue000\ufdd0"),
]


def tokenizer_of(metadata: dict[str, object]) -> Tokenizer:
    return Tokenizer(vocabulary_of(metadata, "x.gguf"), "x.gguf")


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer(vocabulary_of(read_metadata(smollm2), str(smollm2)))


@pytest.mark.parametrize("control", [False, True])
def test_smollm2_tokens_equal_the_tokens_of_llama_cpp(control: bool, smollm2_tokenizer: Tokenizer):
    for line in (HERE / "smollm2_tokens.jsonl").read_text().splitlines():
        case = json.loads(line)
        expected = case["special" if control else "plain"]
        actual = smollm2_tokenizer.encode(case["text"], control=control)
        assert actual == expected, case["text"]
        if not control:
            assert smollm2_tokenizer.decode(expected) == case["text"]


def test_smollm2_has_no_token_for_some_bytes(smollm2_tokenizer: Tokenizer):
    with pytest.raises(FrontendError, match="no token for the byte 0x04"):
        smollm2_tokenizer.encode("a\x04b")


WORDS = {
    "gpt-2": "It|'|LL| cost| | 1234|.|5|€| in|\n\n | HTTPServer|'s| /|path|/;|\t|漢字| x|_|y| ",
    "smollm": "It|'|LL| cost|  |1|2|3|4|.|5|€| in|\n\n | HTTPServer|'s| /|path|/;|\t|漢字| x|_|y| ",
    "llama-bpe": "It|'LL| cost| | |123|4|.|5|€| in|\n\n| | HTTPServer|'s| /|path|/;|\t漢字| x|_y| ",
    "qwen2": "It|'LL| cost| | |1|2|3|4|.|5|€| in|\n\n| | HTTPServer|'s| /|path|/;|\t漢字| x|_y| ",
    "tekken": "It|'LL| cost| | |1|2|3|4|.|5|€| in|\n\n| | HTTPServer|'s| /|path|/;|\t漢字| x|_y| ",
    "gpt-4o": "It'LL| cost| | |123|4|.|5|€| in|\n\n| | HTTPServer's| /|path|/;|\t漢字| x|_y| ",
}
"""Words of a text, joined by `|`, as the package `regex` splits it by the patterns of models."""


@pytest.mark.parametrize("name", WORDS)
def test_patterns_split_text_as_the_models_do(name: str):
    words = WORDS[name].split("|")
    cut = splitter(SPLITTINGS[name]).pre_tokenize_str("".join(words))
    assert [bytes(BYTES[c] for c in word).decode() for word, _ in cut] == words


@pytest.mark.parametrize("name", SPLITTINGS)
def test_no_splitting_loses_a_byte(name: str):
    tokenizer = tokenizer_of(byte_pair_metadata([], name))
    assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == TEXTS


def merged_naively(word: str, merges: list[str]) -> list[str]:
    """Merges the leftmost pair of least rank while there is one."""
    parts = list(word)
    while pairs := [
        (merges.index(f"{a} {b}"), i)
        for i, (a, b) in enumerate(pairwise(parts))
        if f"{a} {b}" in merges
    ]:
        _, i = min(pairs)
        parts[i : i + 2] = ["".join(parts[i : i + 2])]
    return parts


@pytest.mark.parametrize("whole", [False, True])
def test_pairs_of_bytes_merge_by_rank(whole: bool):
    merges = ["b c", "a b", "c c", "a bc", "ab ab", "bc cc", "a a", "aa a"]
    tokenizer = tokenizer_of(byte_pair_metadata(merges, "llama-bpe" if whole else "gpt-2"))
    tokens = tokenizer.vocabulary.tokens
    generator = random.Random(0)
    for _ in range(200):
        word = "".join(generator.choices("abc", k=generator.randint(1, 12)))
        expected = [word] if whole and word in tokens else merged_naively(word, merges)
        assert [tokens[number] for number in tokenizer.encode(word)] == expected


def pieces_naively(text: str, metadata: dict[str, object]) -> list[str]:
    """Merges the best pair of neighbours, leftmost first, until no pair is a token."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]  # pyright: ignore[reportAssignmentType]
    scores: list[float] = metadata["tokenizer.ggml.scores"]  # pyright: ignore[reportAssignmentType]
    parts = list(text)
    while pairs := [
        (-scores[tokens.index(a + b)], i)
        for i, (a, b) in enumerate(pairwise(parts))
        if a + b in tokens
    ]:
        _, i = min(pairs)
        parts[i : i + 2] = ["".join(parts[i : i + 2])]
    return parts


@pytest.mark.parametrize("seed", range(3))
def test_sentence_pieces_merge_by_score(seed: int):
    metadata = sentence_piece_metadata(seed, add_bos_token=False, add_space_prefix=False)
    tokenizer = tokenizer_of(metadata)
    generator = random.Random(seed)
    for _ in range(40):
        text = "".join(generator.choices("aabcé ", k=generator.randint(1, 25)))
        expected = pieces_naively(text.replace(" ", "▁"), metadata)
        assert [tokenizer.vocabulary.tokens[n] for n in tokenizer.encode(text)] == expected


def test_sentence_pieces_encode_other_characters_as_bytes():
    tokenizer = tokenizer_of(sentence_piece_metadata())
    tokens = [tokenizer.vocabulary.tokens[number] for number in tokenizer.encode("日\n")]
    assert tokens == ["<s>", "▁", "<0xE6>", "<0x97>", "<0xA5>", "<0x0A>"]
    # The vocabulary's symbol for a space is the only ambiguous character.
    texts = [text.replace("▁", " ") for text in TEXTS]
    assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == texts


def test_without_bytes_a_character_is_the_unknown_token():
    metadata = sentence_piece_metadata(add_bos_token=False, add_space_prefix=False)
    metadata["tokenizer.ggml.token_type"] = [
        Kind.UNUSED if kind == Kind.BYTE else kind
        for kind in metadata["tokenizer.ggml.token_type"]  # pyright: ignore
    ]
    assert tokenizer_of(metadata).encode("日a")[0] == 0
    del metadata["tokenizer.ggml.unknown_token_id"]
    with pytest.raises(FrontendError, match="no token for '日'"):
        tokenizer_of(metadata).encode("a日")


def test_a_space_goes_before_what_follows_a_control_token():
    tokenizer = tokenizer_of(sentence_piece_metadata())
    tokens = [tokenizer.vocabulary.tokens[n] for n in tokenizer.encode("日</s>日", control=True)]
    assert tokens[:2] == ["<s>", "▁"]
    assert tokens[tokens.index("</s>") + 1] == "▁"


def test_text_cannot_spell_control_tokens_unless_asked():
    tokenizer = tokenizer_of(byte_pair_metadata([]))
    text = "a<|im_end|>b<think>c"
    control = {tokenizer.vocabulary.tokens.index(token) for token in CONTROL}
    plain, meant = tokenizer.encode(text), tokenizer.encode(text, control=True)
    assert not control & set(plain)
    assert tokenizer.decode(plain) == text
    assert len(control & set(meant)) == 1
    assert tokenizer.decode(meant) == "ab<think>c"
    # A token that is not a control token is ordinary text.
    assert tokenizer.vocabulary.tokens.index("<think>") in plain


@pytest.mark.parametrize(
    "text", ["<|im_end|>", "x<|im_end|><|im_end|>y", "<|im_<|im_end|>end|>", "no token", ""]
)
def test_a_guard_keeps_control_tokens_apart(text: str):
    tokenizer = tokenizer_of(byte_pair_metadata([]))
    guard = guard_for([text])
    guarded = tokenizer.guarded(text, guard)
    assert guarded.replace(guard, "") == text
    assert tokenizer.encode(guarded, control=True, guard=guard) == tokenizer.encode(text)


def test_a_guard_is_a_character_that_is_not_in_the_texts():
    assert guard_for(["a" + GUARDS[0], GUARDS[1]]) == GUARDS[2]
    with pytest.raises(FrontendError, match="noncharacters"):
        guard_for(["".join(GUARDS)])


def test_the_start_token_comes_once():
    start = byte_pair_metadata([], add_bos_token=True)["tokenizer.ggml.bos_token_id"]
    tokenizer = tokenizer_of(byte_pair_metadata([], add_bos_token=True))
    assert tokenizer.encode("a")[0] == start
    assert tokenizer.encode("") == [start]
    assert tokenizer.encode(f"{CONTROL[0]}a", control=True).count(start) == 1
    # llama-bpe adds the token at the start of texts unless the file specifies otherwise.
    metadata = byte_pair_metadata([], "llama-bpe")
    del metadata["tokenizer.ggml.add_bos_token"]
    assert tokenizer_of(metadata).encode("a")[0] == start


def test_bytes_wait_for_the_rest_of_their_character():
    tokenizer = tokenizer_of(byte_pair_metadata([]))
    for text in TEXTS:
        stream = tokenizer.stream(begins=True)
        pieces = [stream.push(token) for token in tokenizer.encode(text)]
        assert "".join(pieces) == text
        assert stream.finish() == ""
        assert all(piece == "" or piece in text for piece in pieces)
    stream = tokenizer.stream(begins=True)
    euro = tokenizer.encode("€")
    assert [stream.push(token) for token in euro] == ["", "", "€"]


def test_invalid_bytes_become_the_replacement_character():
    tokenizer = tokenizer_of(byte_pair_metadata([]))
    euro = tokenizer.encode("€")
    assert tokenizer.decode([euro[1], *tokenizer.encode("a")]) == "\ufffda"
    stream = tokenizer.stream(begins=True)
    assert [stream.push(token) for token in euro[:2]] == ["", ""]
    assert stream.finish() == "\ufffd"


def test_an_answer_keeps_the_space_that_the_prompt_does_not_end_in():
    tokenizer = tokenizer_of(sentence_piece_metadata(add_bos_token=False))
    tokens = tokenizer.encode("a")
    begun = tokenizer.stream(begins=True)
    continued = tokenizer.stream(begins=False)
    assert "".join(map(begun.push, tokens)) == "a"
    assert "".join(map(continued.push, tokens)) == " a"


def test_an_answer_ends_at_the_tokens_that_end_turns():
    vocabulary = vocabulary_of(byte_pair_metadata([]), "x")
    ends = {vocabulary.tokens[number] for number in vocabulary.stops}
    assert ends == {"<|im_end|>", "<|endoftext|>"} <= ENDS_OF_TURNS
    # Text that is not a control token does not end the answer.
    vocabulary = vocabulary_of(byte_pair_metadata(["< /", "</ s", "</s >"]), "x")
    assert vocabulary.tokens.index("</s>") not in vocabulary.stops


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"model": "bert"}, "tokenizers of the kind 'bert'"),
        ({"pre": "unheard-of"}, "pre-tokenizer 'unheard-of' is unknown"),
        ({"pre": ""}, "does not name its pre-tokenizer"),
        ({"tokens": []}, "no vocabulary"),
        ({"token_type": [1]}, "261 tokens, but 1 values"),
        ({"scores": [1.0]}, "261 tokens, but 1 values"),
        ({"merges": ["a b", "x"]}, "the merge 'x' contains a text that is not a token"),
        ({"merges": ["a b", "a c"]}, "the merge 'a c' contains a text that is not a token"),
        ({"eos_token_id": 261}, "eos_token_id is 261, but there are only 261 tokens"),
        ({"bos_token_id": None, "add_bos_token": True}, "the file does not name the token"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(changes: dict[str, object], cause: str):
    with pytest.raises(FrontendError, match=cause) as error:
        tokenizer_of(byte_pair_metadata(["a b"], **changes))
    assert "x.gguf" in error.value.place
    assert error.value.remedy


def test_pieces_without_scores_are_refused():
    """Without scores, the order of merges is unknown."""
    metadata = sentence_piece_metadata()
    del metadata["tokenizer.ggml.scores"]
    with pytest.raises(FrontendError, match="no scores of tokens"):
        tokenizer_of(metadata)


def test_a_repeated_token_is_refused():
    metadata = byte_pair_metadata(["a b", "a b"])
    with pytest.raises(FrontendError, match="two tokens have the text 'ab'"):
        tokenizer_of(metadata)


def test_a_text_with_surrogates_is_refused():
    with pytest.raises(FrontendError, match="not valid Unicode") as error:
        tokenizer_of(byte_pair_metadata([])).encode("ab\udcff")
    assert error.value.place == "character 3"

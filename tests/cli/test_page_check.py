# SPDX-License-Identifier: Apache-2.0
"""What the checks of pages and of their words find, and what they leave alone."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools/checks"))

import check_names  # noqa: E402
import check_pages  # noqa: E402
import check_words  # noqa: E402

PAGE = ROOT / "docs/README.md"


@pytest.mark.parametrize("text, fault", [
    ("see [there](NOWHERE.md)", "dead link"),
    ("see [there](SERVING.md#no-such-heading)", "a heading that SERVING.md does not have"),
    ("`src/base/no_such_file.h`", "there is no src/base/no_such_file.h"),
    ("```\n./dev fly\n```", "no command 'fly'"),
    ("```\ngraft fly model.onnx\n```", "no command 'fly'"),
    ("`graft serve model.graft --wings 2`", "graft serve has no option --wings"),
])
def test_what_does_not_exist_is_found(text, fault):
    [(_, message)] = check_pages.page_faults(PAGE, text)
    assert fault in message


@pytest.mark.parametrize("text", [
    "[there](SERVING.md#five-commands), [elsewhere](https://example.org/NOWHERE.md)",
    "`src/ops/philox`, `src/host/NAME`", "`graft run model.onnx --tune off --reference interpreter`",
    "```\ngraft compile model.onnx -o a.graft | other --wings\n```", "./dev test -R ops",
])
def test_what_exists_is_left_alone(text):
    assert not list(check_pages.page_faults(PAGE, text))


@pytest.mark.parametrize("text", [
    "The batch is a size that only a run knows.", "The\nusual\nsize is 8.", "| a size | is open |",
])
def test_words_that_are_not_the_trades_are_found(text):
    [(position, message)] = check_words.word_faults(text)
    assert text[position:].startswith(message[1:].partition("'")[0].split()[0]) and "words.txt" in message


@pytest.mark.parametrize("text", [
    "A dynamic dimension.", "`its message: the size is open`", "```\nusual size\n```",
    "<!-- derived: table -->\n| usual size |\n<!-- end: table -->", "<!-- Written by ./dev docs -->\nusual size",
    "[a page](usual-size.md)",
])
def test_code_and_what_commands_wrote_may_use_them(text):
    assert not list(check_words.word_faults(text))


def test_every_word_has_a_replacement():
    assert all(phrase.pattern and instead for phrase, instead in check_words.phrases())


#: In two pieces, since the words of this file count too.
NEW = "Unhe" + "ard"


@pytest.mark.parametrize("text, fault", [
    (f"set `GRAFT_{NEW.upper()}=1`", f"nothing is called GRAFT_{NEW.upper()}"),
    (f"`graft_{NEW.lower()}(engine)`", f"nothing is called graft_{NEW.lower()}"),
    (f"`graft::{NEW}`", f"nothing is called graft::{NEW}"),
    (f"`graft.torch.{NEW.lower()}(model)`", f"nothing is called graft.torch.{NEW.lower()}"),
    (f"`graft_{NEW.lower()}_tests`", f"nothing is called graft_{NEW.lower()}_tests"),
    ("`plan/wings`", "there is no src/plan/wings"),
    ("```\n./dev test --wings\n```", "./dev test has no option --wings"),
    ("`./dev bench cpu --wings`", "./dev bench has no option --wings"),
])
def test_names_that_nothing_has_are_found(text, fault):
    assert [message for _, message in check_names.name_faults(PAGE, text)] == [fault]


@pytest.mark.parametrize("text", [
    "`GRAFT_DEBUG=1`", "`graft_compile`, `graft::SessionPool`, `graft.torch.compile`", "`graft_op_tests`, model.graft",
    "`plan/spread_reduction`, `codegen/cuda/coded_stream`", "`./dev bench cpu --set architectures --tune fast`",
    "`./dev build -DGRAFT_LLVM=OFF`",
])
def test_names_that_sources_have_are_left_alone(text):
    assert not list(check_names.name_faults(PAGE, text))

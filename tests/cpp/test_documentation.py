"""The code of docs/cpp.md compiles and runs as it stands there, and the headers' comments are for Doxygen.

Its block about libtorch is a part of programs/torch_checks.cc.
"""

import pathlib
import re
import subprocess

import harness
import page_code
import pytest

LIBRARY = harness.ROOT / "sdk" / "python" / "farandole" / "_lib"
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{harness.ROOT}", f"-I{harness.ROOT}/sdk/cpp")
HEADERS = sorted((harness.ROOT / "sdk" / "cpp" / "farandole").glob("*.h"))

# The reader's own code around the page's.
FIVE_LINES = page_code.block("int main() {\n  farandole::Job job")
SIGNALS = """#include <csignal>
#include <farandole/farandole.h>

void Step(farandole::Job& job) {
  static int steps = 0;
  farandole::ExitOnError(job.Barrier());
  if (++steps == 3) raise(SIGINT);
}
""" + page_code.block("sig_atomic_t")
IN_A_FUNCTION = f"""#include <farandole/farandole.h>

#include <vector>

float Apply(const farandole::Status& status) {{ return status.ok() ? 0.5f : 0; }}
void Descend(const std::vector<float>& gradient, std::vector<float>* weights) {{
  for (size_t i = 0; i < gradient.size(); ++i) (*weights)[i] -= gradient[i];
}}

int main() {{
  farandole::Job job = farandole::ExitOnError(farandole::Init());
  std::vector<float> gradient(4, 1);
  std::vector<float> weights(4, 0);
  const int steps = 20;
  int step = 0;
  {{
{page_code.block("float Apply")}
    if (change != 0.5f) return 1;
  }}
{page_code.block("elastic::State")}
  return step == steps && weights[3] == -steps ? 0 : 2;
}}
"""


@pytest.mark.parametrize("name", ("FIVE_LINES", "SIGNALS", "IN_A_FUNCTION"))
def test_code_of_the_page_runs(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "program.cc").write_text(globals()[name], encoding="utf-8")
    program = tmp_path / "program"
    build = ["g++", *FLAGS, str(tmp_path / "program.cc"), "-o", str(program), f"-Wl,-rpath,{LIBRARY}", "-ldl"]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    result = harness.run(harness.Setup(2), tmp_path / "state", str(program))
    assert result.returncode == 0, result.stdout


def test_each_block_is_tried() -> None:
    tried = ("int main() {\n  farandole::Job job", "sig_atomic_t", "float Apply", "elastic::State", "GradientReducer")
    assert sorted(page_code.blocks()) == sorted(page_code.block(start) for start in tried)


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_comments_of_public_names_are_doxygens(header: pathlib.Path) -> None:
    declaration = r"(?:class|struct|enum|template|using|inline|int|bool|Status)"
    plain = re.findall(rf"^// .*\n(?={declaration}\b)", header.read_text(encoding="utf-8"), re.M)
    assert not plain, f"begin them with ///: {plain}"

// Plays every scenario in testdata/ and compares what the job does with what the file says beneath each command.
//
//   bazel run //server/job:script_test -- --rewrite     writes what the job does now into the files; read the
//   difference
#include "server/job/script.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

bool rewrite = false;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The file's text with the outputs that the job gives now. A block is commands, a line "----", and output up to an
// empty line; lines that start with '#' and empty lines between blocks stay as they are.
std::string PlayFile(const std::string& text, std::vector<std::string>* broken) {
  Script script;
  std::string played, output;
  bool in_output = false;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    if (in_output) {
      if (line.empty()) {
        absl::StrAppend(&played, "\n");
        in_output = false;
      }
      continue;
    }
    absl::StrAppend(&played, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    if (line == "----") {
      absl::StrAppend(&played, output);
      output.clear();
      in_output = true;
      continue;
    }
    absl::StrAppend(&output, script.Play(std::string(line)));
  }
  *broken = script.shell().broken();
  return played;
}

class ScriptTest : public testing::TestWithParam<std::string> {};

TEST_P(ScriptTest, TheJobDoesWhatTheScriptSays) {
  const std::string expected = ReadFile(GetParam());
  std::vector<std::string> broken;
  const std::string actual = PlayFile(expected, &broken);
  EXPECT_TRUE(broken.empty()) << broken.front();
  if (!rewrite) {
    EXPECT_EQ(actual, expected) << "if the job is right: bazel run //server/job:script_test -- --rewrite";
  } else if (actual != expected) {
    std::ofstream(GetParam()) << actual;
  }
}

std::vector<std::string> Scripts() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("server/job/testdata")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string NameOfScript(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Testdata, ScriptTest, testing::ValuesIn(Scripts()), NameOfScript);

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  farandole::rewrite = argc > 1 && std::string(argv[1]) == "--rewrite";
  return RUN_ALL_TESTS();
}

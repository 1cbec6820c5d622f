// Turns the arguments of a fuzz test, which are the files of its corpus, into those of libFuzzer.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::string Environment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

// libFuzzer calls it before it reads the arguments.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static std::vector<std::string> texts;
  static std::vector<char*> pointers;
  std::string seeds;
  for (int i = 1; i < *count; ++i) seeds += (i > 1 ? "," : "") + std::string((*arguments)[i]);
  // The test's outputs, which Bazel keeps, get the inputs that fail.
  const std::string found = Environment("TEST_UNDECLARED_OUTPUTS_DIR", ".");
  texts = {(*arguments)[0],         "-max_total_time=" + Environment("FUZZ_SECONDS", "10"),
           "-seed_inputs=" + seeds, "-artifact_prefix=" + found + "/",
           "-timeout=10",           "-rss_limit_mb=2048",
           "-print_final_stats=1",  "-verbosity=1"};
  if (seeds.empty()) texts.erase(texts.begin() + 2);
  const std::string kept = Environment("FUZZ_CORPUS", "");
  if (!kept.empty()) texts.push_back(kept);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  *count = static_cast<int>(texts.size());
  *arguments = pointers.data();
  return 0;
}

#include "deploy/stacks/frame_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/text/plain_text.h"

namespace farandole::stacks {
namespace {

constexpr size_t kMostNameBytes = 256;
// Symbols of more bytes are not demangled: they may expand to a hundred times as many.
constexpr size_t kMostSymbolBytes = 4096;

}  // namespace

absl::string_view WithoutParameters(absl::string_view name) {
  absl::string_view rest = name;
  // As in "f(int) [clone .cold]".
  const size_t clone = rest.find(" [clone ");
  if (clone != absl::string_view::npos) rest = rest.substr(0, clone);
  for (const char* const suffix : {" &&", " &", " volatile", " const"}) absl::ConsumeSuffix(&rest, suffix);
  if (!absl::EndsWith(rest, ")")) return rest;
  int depth = 0;
  for (size_t at = rest.size(); at-- > 0;) {
    if (rest[at] == ')') ++depth;
    if (rest[at] == '(' && --depth == 0) return at == 0 ? name : rest.substr(0, at);
  }
  return name;
}

std::string FrameName(const std::string& symbol) {
  // A version may stand behind the name, as in "memcpy@@GLIBC_2.14".
  const std::string plain = symbol.substr(0, symbol.find('@'));
  if (!absl::StartsWith(plain, "_Z") || plain.size() > kMostSymbolBytes) return Plain(plain, kMostNameBytes);
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(plain.c_str(), nullptr, nullptr, &status), &std::free);
  return Plain(status == 0 ? WithoutParameters(demangled.get()) : absl::string_view(plain), kMostNameBytes);
}

}  // namespace farandole::stacks

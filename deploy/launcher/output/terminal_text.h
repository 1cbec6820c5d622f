#ifndef FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_TEXT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_TEXT_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole::launcher {

// Text as terminals read it: UTF-8 with control sequences (ECMA-48). All of it is pure.

constexpr char kEscape = '\x1b';
// Ends all colours and other attributes.
constexpr char kPlainStyle[] = "\x1b[0m";

// The size of the control sequence with which `text` begins; text[0] is kEscape. 1: none begins with it. 0: its end has
// not come yet.
size_t SequenceSize(absl::string_view text);

// How many columns the text takes. Control sequences and combining characters take none, wide characters two.
size_t DisplayWidth(absl::string_view text);

// As much of the beginning of `text` as fits into so many columns; all its control sequences stay.
std::string FitColumns(absl::string_view text, size_t columns);

// The colours and other attributes that a stream has set (SGR).
class TextStyle {
 public:
  // Takes a sequence that ends in 'm'.
  void Apply(absl::string_view sequence);
  bool is_plain() const { return parameters_.empty(); }
  // The sequence that sets them anew; "" if all is plain.
  std::string Sequence() const;

 private:
  // By the parameter that ends them: 39 for colours of the text, 49 for those behind it, 22 for bold, and so on.
  std::map<int, std::string> parameters_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OUTPUT_TERMINAL_TEXT_H_

#ifndef FARANDOLE_DEPLOY_CLI_TEXT_TEXT_TABLE_H_
#define FARANDOLE_DEPLOY_CLI_TEXT_TEXT_TABLE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/text/shown_text.h"  // ShowTime and WithoutControls, for the same commands

namespace farandole {

// How the commands show numbers and tables to people.

// One column: its title, and whether its cells stand at its right edge, as numbers do.
struct TextColumn {
  std::string title;
  bool right = false;
};

// Columns as wide as their widest cell; the last column's cells are as long as they are. Each row has a cell for each
// column. Control characters of a cell become '?': a terminal obeys them.
void PrintTable(const std::vector<TextColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                std::ostream& out);

// "12 B", "1.5 MiB".
std::string ShowSize(uint64_t bytes);
// "5 s", "12 min", "3 h", "9 d"; "0 s" for a negative duration.
std::string ShowAge(absl::Duration age);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TEXT_TEXT_TABLE_H_

#include "deploy/cli/config_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "yaml-cpp/yaml.h"

namespace farandole {
namespace {

constexpr size_t kMostBytes = 1 << 20;

absl::Status Wrong(const std::string& path, int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", what));
}

// yaml-cpp counts lines from 0, and gives -1 where it does not know.
int LineOf(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

const char* KindOf(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "a mapping" : "nothing";
}

absl::StatusOr<std::vector<ConfigEntry>> ReadMapping(const std::string& path, const YAML::Node& root) {
  std::vector<ConfigEntry> entries;
  if (root.IsNull()) return entries;
  if (!root.IsMap())
    return Wrong(path, LineOf(root.Mark()), "the file is no mapping: each line is a setting, `key: value`");
  for (const auto& pair : root) {
    const YAML::Node& key = pair.first;
    const YAML::Node& value = pair.second;
    const int line = LineOf(key.Mark());
    if (!key.IsScalar()) return Wrong(path, line, "a key is one word, the name of a setting");
    const std::string name = key.Scalar();
    if (!value.IsScalar()) {
      return Wrong(path, line, absl::StrCat(name, ": a single value is wanted, and there is ", KindOf(value)));
    }
    const auto earlier =
        std::find_if(entries.begin(), entries.end(), [&](const ConfigEntry& entry) { return entry.key == name; });
    if (earlier != entries.end())
      return Wrong(path, line, absl::StrCat(name, ": is set in line ", earlier->line, " already"));
    entries.push_back({name, value.Scalar(), line});
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostBytes);
  if (!text.ok()) return text.status();
  // yaml-cpp throws.
  try {
    return ReadMapping(path, YAML::Load(*text));
  } catch (const YAML::Exception& error) {
    return Wrong(path, LineOf(error.mark), absl::StrCat("this is no YAML: ", error.msg));
  }
}

std::string ShowConfigFile(const std::vector<ConfigEntry>& entries, const std::vector<std::string>& comments) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (size_t i = 0; i < entries.size(); ++i) {
    out << YAML::Key << entries[i].key << YAML::Value;
    // What would read as nothing, or as more than one word, is quoted.
    if (entries[i].value.empty()) out << YAML::DoubleQuoted;
    out << entries[i].value << YAML::Comment(comments[i]);
  }
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace farandole

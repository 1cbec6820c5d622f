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

// yaml-cpp counts lines from 0, and gives -1 if it does not know.
int LineOf(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

const char* KindOf(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "a mapping" : "nothing";
}

absl::Status AppendMapping(const std::string& path, const YAML::Node& mapping, const std::string& section,
                           bool has_sections, std::vector<ConfigEntry>* entries) {
  if (!mapping.IsMap())
    return Wrong(path, LineOf(mapping.Mark()), "the file is not a mapping: each line must be a setting, `key: value`");
  for (const auto& pair : mapping) {
    const YAML::Node& key = pair.first;
    const YAML::Node& value = pair.second;
    const int line = LineOf(key.Mark());
    if (!key.IsScalar()) return Wrong(path, line, "a key is one word, the name of a setting");
    const std::string name = absl::StrCat(section, key.Scalar());
    if (value.IsMap() && has_sections) {
      const absl::Status appended = AppendMapping(path, value, absl::StrCat(name, "."), false, entries);
      if (!appended.ok()) return appended;
      continue;
    }
    if (!value.IsScalar()) {
      return Wrong(path, line, absl::StrCat(name, ": a single value is wanted, and there is ", KindOf(value)));
    }
    const auto earlier =
        std::find_if(entries->begin(), entries->end(), [&](const ConfigEntry& entry) { return entry.key == name; });
    if (earlier != entries->end())
      return Wrong(path, line, absl::StrCat(name, ": is set in line ", earlier->line, " already"));
    entries->push_back({name, value.Scalar(), line});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ConfigEntry>> ReadFile(const std::string& path, bool has_sections) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostBytes);
  if (!text.ok()) return text.status();
  // yaml-cpp throws.
  try {
    const YAML::Node root = YAML::Load(*text);
    std::vector<ConfigEntry> entries;
    if (root.IsNull()) return entries;
    const absl::Status read = AppendMapping(path, root, "", has_sections, &entries);
    if (!read.ok()) return read;
    return entries;
  } catch (const YAML::Exception& error) {
    return Wrong(path, LineOf(error.mark), absl::StrCat("this is not valid YAML: ", error.msg));
  }
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path) { return ReadFile(path, false); }

absl::StatusOr<std::vector<ConfigEntry>> ReadSectionedFile(const std::string& path) { return ReadFile(path, true); }

std::string ShowConfigFile(const std::vector<ConfigEntry>& entries, const std::vector<std::string>& comments) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (size_t i = 0; i < entries.size(); ++i) {
    out << YAML::Key << entries[i].key << YAML::Value;
    // Quote values that are empty or have more than one word.
    if (entries[i].value.empty()) out << YAML::DoubleQuoted;
    out << entries[i].value << YAML::Comment(comments[i]);
  }
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace farandole

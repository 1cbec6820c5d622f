#include "checkpoint/manifest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/durable_file.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kExtension = ".json";
constexpr int kFormat = 1;
constexpr size_t kSha256Bytes = 32;
// Far above the longest that names and paths within their bounds can be.
constexpr size_t kMostManifestBytes = 64 << 10;

// One field of a manifest; writes the error, if any, into `problem`.
template <typename T>
T Field(const Json& json, const char* name, std::string* problem) {
  const auto found = json.find(name);
  if (found == json.end()) {
    *problem = absl::StrCat("it has no field '", name, "'");
    return T();
  }
  const bool fits = std::is_same<T, std::string>::value ? found->is_string()
                    : std::is_signed<T>::value          ? found->is_number_integer()
                                                        : found->is_number_unsigned();
  if (fits) return found->get<T>();
  *problem = absl::StrCat("its field '", name, "' is of the wrong kind");
  return T();
}

absl::Status NoManifest(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, " is not a checkpoint's manifest: ", why));
}

bool IsFile(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

}  // namespace

std::string ManifestPath(absl::string_view checkpoint_path) { return absl::StrCat(checkpoint_path, kExtension); }

absl::Status WriteManifest(const Manifest& manifest, const std::string& temporary) {
  const v1::Checkpoint& checkpoint = manifest.checkpoint;
  Json json;
  json["farandole_manifest"] = kFormat;
  json["job"] = manifest.job;
  json["epoch"] = checkpoint.epoch();
  json["name"] = checkpoint.name();
  json["step"] = checkpoint.step();
  json["token"] = checkpoint.token();
  json["path"] = checkpoint.path();
  json["size_bytes"] = checkpoint.size_bytes();
  json["sha256"] = absl::BytesToHexString(checkpoint.sha256());
  // Names are bytes, JSON is UTF-8: replace other bytes instead of throwing.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return WriteFileAtomically(ManifestPath(checkpoint.path()), temporary, text);
}

absl::StatusOr<Manifest> ReadManifest(const std::string& manifest_path) {
  const absl::StatusOr<std::string> text = ReadSmallRegularFile(manifest_path, kMostManifestBytes);
  if (absl::IsFailedPrecondition(text.status())) return NoManifest(manifest_path, "it is no file");
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return NoManifest(manifest_path, "it is no JSON object");
  std::string problem;
  const int64_t format = Field<int64_t>(json, "farandole_manifest", &problem);
  if (problem.empty() && format != kFormat) {
    problem = absl::StrCat("its format is ", format, ", this program knows ", kFormat);
  }
  Manifest manifest;
  v1::Checkpoint& checkpoint = manifest.checkpoint;
  manifest.job = Field<std::string>(json, "job", &problem);
  checkpoint.set_epoch(Field<uint64_t>(json, "epoch", &problem));
  checkpoint.set_name(Field<std::string>(json, "name", &problem));
  checkpoint.set_step(Field<int64_t>(json, "step", &problem));
  checkpoint.set_token(Field<uint64_t>(json, "token", &problem));
  checkpoint.set_size_bytes(Field<uint64_t>(json, "size_bytes", &problem));
  const std::string sha256 = Field<std::string>(json, "sha256", &problem);
  checkpoint.set_sha256(absl::HexStringToBytes(sha256.size() == 2 * kSha256Bytes ? sha256 : ""));
  if (problem.empty() && absl::BytesToHexString(checkpoint.sha256()) != sha256) {
    problem = absl::StrCat("its sha256 is not ", 2 * kSha256Bytes, " lower-case hexadecimal digits");
  }
  if (!problem.empty()) return NoManifest(manifest_path, problem);
  checkpoint.set_path(manifest_path.substr(0, manifest_path.size() - kExtension.size()));
  return manifest;
}

absl::StatusOr<std::vector<Manifest>> ListManifests(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return names.status();
  std::vector<Manifest> manifests;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kExtension) || name[0] == '.') continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(absl::StrCat(directory, "/", name));
    if (manifest.ok() && IsFile(manifest->checkpoint.path())) manifests.push_back(*std::move(manifest));
  }
  std::sort(manifests.begin(), manifests.end(), [](const Manifest& a, const Manifest& b) {
    return std::make_pair(a.checkpoint.token(), a.checkpoint.step()) <
           std::make_pair(b.checkpoint.token(), b.checkpoint.step());
  });
  return manifests;
}

absl::StatusOr<Manifest> FindManifest(const std::string& directory, absl::string_view name, int64_t step) {
  absl::StatusOr<std::vector<Manifest>> manifests = ListManifests(directory);
  if (!manifests.ok()) return manifests.status();
  for (auto it = manifests->rbegin(); it != manifests->rend(); ++it) {
    if (!name.empty() && it->checkpoint.name() != name) continue;
    if (step >= 0 && it->checkpoint.step() != step) continue;
    return *std::move(it);
  }
  return absl::NotFoundError(absl::StrCat("there is no checkpoint", name.empty() ? "" : absl::StrCat(" '", name, "'"),
                                          step < 0 ? "" : absl::StrCat(" of step ", step), " in ", directory));
}

absl::Status VerifyFile(const v1::Checkpoint& checkpoint) {
  struct stat found = {};
  if (stat(checkpoint.path().c_str(), &found) != 0) return FileError(errno, "read", checkpoint.path());
  // A file of another size need not be read.
  if (S_ISREG(found.st_mode) && static_cast<uint64_t>(found.st_size) != checkpoint.size_bytes()) {
    return absl::DataLossError(absl::StrCat("checkpoint ", checkpoint.path(), " has ", found.st_size, " bytes, ",
                                            checkpoint.size_bytes(), " were committed"));
  }
  const absl::StatusOr<FileDigest> digest = DigestFile(checkpoint.path());
  if (!digest.ok()) return digest.status();
  if (digest->sha256 == checkpoint.sha256()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint ", checkpoint.path(), " has SHA-256 ",
                                          absl::BytesToHexString(digest->sha256), ", ",
                                          absl::BytesToHexString(checkpoint.sha256()), " was committed"));
}

}  // namespace farandole

#include "web/files/evidence_archive.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "nlohmann/json.hpp"
#include "web/files/evidence_text.h"
#include "web/files/tar_gz.h"
#include "web/job_json.h"

namespace farandole {
namespace {

// Of the job's name in the names of the archive's files, which have 100 bytes at most.
constexpr size_t kMostNameBytes = 32;

}  // namespace

absl::StatusOr<std::string> PackEvidence(const v1::GetJobResponse& job, const v1::DiagnoseResponse& answer,
                                         absl::string_view source, absl::Time now) {
  const std::string& name = job.summary().job();
  const std::string directory = absl::StrCat("farandole-", name.substr(0, kMostNameBytes), "/");
  std::vector<std::pair<std::string, std::string>> files = {
      {directory + "README.txt",
       absl::StrCat("Job ", name, " as ", source, " of farandole ", kVersion, " saw it at ",
                    absl::FormatTime(now, absl::UTCTimeZone()), ".\n\n", ShowEvidence(answer))},
      {directory + "diagnosis.json", EvidenceJson(answer)},
      {directory + "job.json", ShowJson(JobJson(job), 2)}};
  for (const v1::RankEvidence& rank : answer.ranks())
    files.emplace_back(absl::StrCat(directory, "rank-", rank.rank(), ".json"), EvidenceJson(rank));
  return PackTarGz(files, now);
}

}  // namespace farandole

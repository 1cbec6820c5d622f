#include "web/files/evidence_archive.h"

#include <cstdint>
#include <set>
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

v1::DiagnoseResponse EvidenceWithin(const v1::DiagnoseResponse& answer, size_t most_bytes) {
  v1::DiagnoseResponse kept;
  kept.set_epoch(answer.epoch());
  kept.set_size(answer.size());
  kept.set_stalled_unix_ms(answer.stalled_unix_ms());
  kept.set_sentence(answer.sentence());
  *kept.mutable_waits() = answer.waits();
  size_t bytes = 0;
  for (const v1::StackGroup& group : answer.stacks()) {
    bytes += group.ByteSizeLong();
    if (bytes > most_bytes / 2) break;
    *kept.add_stacks() = group;
  }
  std::set<uint32_t> missing;
  for (const v1::FlightWait& wait : answer.waits()) missing.insert(wait.missing().begin(), wait.missing().end());
  for (const v1::RankEvidence& rank : answer.ranks()) {
    v1::RankEvidence* const one = kept.add_ranks();
    one->set_rank(rank.rank());
    one->set_silence(rank.silence());
  }
  bytes = 0;
  for (const bool of_missing : {true, false}) {
    for (int at = 0; at < answer.ranks_size(); ++at) {
      const v1::RankEvidence& rank = answer.ranks(at);
      if ((missing.count(rank.rank()) > 0) != of_missing || !rank.has_evidence()) continue;
      if (bytes + rank.evidence().ByteSizeLong() > most_bytes) {
        kept.mutable_ranks(at)->set_silence(
            absl::StrCat("left out: this archive takes ", most_bytes,
                         " bytes of evidence, first that of the ranks that others wait for; "
                         "`farandole diagnose JOB --archive FILE` takes all"));
        continue;
      }
      bytes += rank.evidence().ByteSizeLong();
      *kept.mutable_ranks(at)->mutable_evidence() = rank.evidence();
    }
  }
  return kept;
}

}  // namespace farandole

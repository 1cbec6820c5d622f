#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_CATALOGUE_READER_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_CATALOGUE_READER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// Which catalogue of checkpoints is meant.
struct CatalogueSource {
  // Only this job; "": all.
  std::string job;
  // A coordinator's state directory; "": those of `jobs_directory`, and `serve_directory`.
  std::string state_dir;
  // HOST:PORT of a running coordinator, instead of a state directory, and the files as CoordinatorSource has them.
  std::string coordinator;
  std::string token_file;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  // Where `farandole run` keeps a state directory per job; "" if that is not known.
  std::string jobs_directory;
  // That of `farandole serve` if it is given none; "" if that is not known.
  std::string serve_directory;
};

struct CatalogueRow {
  std::string job;
  v1::Checkpoint checkpoint;
};

struct Catalogue {
  // By job, and within a job in the order of the commits.
  std::vector<CatalogueRow> rows;
  // One sentence for each checkpoint that could not be read; the rows are those of the rest.
  std::vector<absl::Status> problems;
};

// Reads the catalogue from disk, also while a coordinator has it open, or asks a running coordinator (for at most 10 s
// per call).
//   NOT_FOUND         there is no such state directory, or no such job in it
//   INVALID_ARGUMENT  the source contradicts itself, or is incomplete
//   UNAVAILABLE, UNAUTHENTICATED, PERMISSION_DENIED  the coordinator or a file cannot be asked (named)
absl::StatusOr<Catalogue> ReadCatalogue(const CatalogueSource& source);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_CATALOGUE_READER_H_

#ifndef FARANDOLE_SERVER_EDGE_ROUTES_JOB_LIST_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_JOB_LIST_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/registry/job_registry.h"

namespace farandole {

// Finds a text in others, whatever the case of their ASCII letters, in a time that grows with their bytes alone (Knuth,
// Morris and Pratt 1977): people choose the text, and workers the others.
class TextSearch {
 public:
  explicit TextSearch(absl::string_view text);

  // The text is in `parts`, one behind the other.
  bool IsIn(absl::Span<const absl::string_view> parts) const;

 private:
  // In lower case.
  const std::string text_;
  // By how many bytes of the text agree: how many do where the next does not, but may be followed by another.
  std::vector<size_t> next_;
};

// The jobs that a query finds.
struct FoundJobs {
  // The rows that it asks for.
  std::vector<JobRegistry::Shown> rows;
  // How many jobs there are in all, by the name of their state.
  std::map<std::string, size_t> states;
  size_t found = 0;
  // How many bytes of texts were searched.
  size_t searched_bytes = 0;
};

// `query` has search=, state= (again and again), order=urgency, offset= and limit=, as monitor_routes.h says.
FoundJobs FindJobs(absl::Span<const JobRegistry::Shown> jobs, const std::string& query);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_JOB_LIST_H_

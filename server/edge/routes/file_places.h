#ifndef FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "web/http_message.h"

namespace farandole {

// Files of some MiB that the edge makes in memory: each tenant has at most `most` at a time, each from its request
// until it is written to the client or the connection has ended. The tenant is the caller's, so that nobody keeps
// another's callers from a job. Any thread.
class FilePlaces {
 public:
  // `kind` names the files for people: "timelines and archives".
  FilePlaces(size_t most, std::string kind) : most_(most), kind_(std::move(kind)) {}

  // The answer to give for such a request in the place of `answer`; it holds a place. nullopt: the tenant has all its
  // places in use, and `answer` has got 429.
  std::optional<HttpAnswer> Take(const HttpIdentity& identity, HttpAnswer answer);

 private:
  struct Taken {
    std::mutex mutex;
    // How many places each tenant has in use.
    absl::btree_map<std::string, size_t> tenants ABSL_GUARDED_BY(mutex);
  };
  class Place;

  const size_t most_;
  const std::string kind_;

  // shared: by the places, which may outlive the routes.
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_

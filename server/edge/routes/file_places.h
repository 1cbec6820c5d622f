#ifndef FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_
#define FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "web/http_message.h"

namespace farandole {

// Files of some MiB that the edge makes in memory: each tenant has one at a time, from its request until it is written
// to the client or the connection has ended. The tenant is the caller's, so that nobody keeps another's callers from a
// job. Any thread.
class FilePlaces {
 public:
  // The answer to give for such a request in the place of `answer`; it holds the place. nullopt: the tenant has its
  // place in use, and `answer` has got 429.
  std::optional<HttpAnswer> Take(const HttpIdentity& identity, HttpAnswer answer);

 private:
  struct Taken {
    std::mutex mutex;
    absl::btree_set<std::string> tenants ABSL_GUARDED_BY(mutex);
  };
  class Place;

  // shared: by the places, which may outlive the routes.
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_

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

// Memory of the edge for replies: files, answers about whole jobs, bytes of pages. Each owner (OwnerOf) has at most
// `most` of it at a time, each from its request until it is written to the client or the connection has ended. The
// owner is the caller's, so that nobody keeps another's callers from a job. Any thread.
class FilePlaces {
 public:
  // `kind` names the files for people: "timelines and archives".
  FilePlaces(size_t most, std::string kind) : most_(most), kind_(std::move(kind)) {}

  // The answer to give for such a request in the place of `answer`; it holds a place, and its reply is written in the
  // owner's turn, as a long one (HttpReply::turn_of). nullopt: the owner has all its places in use, and `answer` has
  // got 429.
  std::optional<HttpAnswer> Take(const HttpIdentity& identity, HttpAnswer answer);
  // For a reply that is written out: it takes a place for each byte of its body; the first reply fits, however long it
  // is. Gives 429 in its place where the owner's others take too many.
  HttpReply Fit(const HttpIdentity& identity, HttpReply reply);
  // Has `reply` hold so many places, as Fit does, for what it is made from. False: it is a 429 instead.
  bool Hold(const HttpIdentity& identity, size_t count, HttpReply* reply);

 private:
  struct Taken {
    std::mutex mutex;
    // How many places each owner has in use.
    absl::btree_map<std::string, size_t> owners ABSL_GUARDED_BY(mutex);
  };
  class Place;

  // Takes `count` places; null: the owner's other files leave too few.
  std::shared_ptr<const void> Occupy(const std::string& owner, size_t count);
  HttpReply Refusal(const std::string& owner) const;

  const size_t most_;
  const std::string kind_;

  // shared: by the places, which may outlive the routes.
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ROUTES_FILE_PLACES_H_

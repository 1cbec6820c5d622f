#include "server/edge/routes/file_places.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

// Gives itself back at its end.
class FilePlaces::Place {
 public:
  Place(std::shared_ptr<Taken> taken, std::string tenant) : taken_(std::move(taken)), tenant_(std::move(tenant)) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    const std::lock_guard<std::mutex> lock(taken_->mutex);
    const auto found = taken_->tenants.find(tenant_);
    if (--found->second == 0) taken_->tenants.erase(found);
  }

 private:
  const std::shared_ptr<Taken> taken_;
  const std::string tenant_;
};

std::optional<HttpAnswer> FilePlaces::Take(const HttpIdentity& identity, HttpAnswer answer) {
  bool is_free = false;
  {
    const std::lock_guard<std::mutex> lock(taken_->mutex);
    size_t& taken = taken_->tenants[identity.tenant];
    is_free = taken < most_;
    if (is_free) ++taken;
  }
  if (!is_free) {
    HttpReply reply =
        HttpError(429, absl::StrCat("tenant ", identity.tenant, " has ", most_, " of its ", kind_,
                                    " under way, which is the most at a time; try again in some seconds"));
    reply.headers.emplace_back("Retry-After", "5");
    answer(std::move(reply));
    return std::nullopt;
  }
  // shared: by the answer's copies. The one that is called takes the place out, so that no other copy holds it longer.
  const auto held =
      std::make_shared<std::shared_ptr<const void>>(std::make_shared<const Place>(taken_, identity.tenant));
  return [held, answer = std::move(answer)](HttpReply reply) {
    reply.held = std::exchange(*held, nullptr);
    answer(std::move(reply));
  };
}

}  // namespace farandole

#include "server/edge/routes/file_places.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

// Gives itself back at its end.
class FilePlaces::Place {
 public:
  Place(std::shared_ptr<Taken> taken, std::string owner, size_t count)
      : taken_(std::move(taken)), owner_(std::move(owner)), count_(count) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    const std::lock_guard<std::mutex> lock(taken_->mutex);
    const auto found = taken_->owners.find(owner_);
    if ((found->second -= count_) == 0) taken_->owners.erase(found);
  }

 private:
  const std::shared_ptr<Taken> taken_;
  const std::string owner_;
  const size_t count_;
};

std::shared_ptr<const void> FilePlaces::Occupy(const std::string& owner, size_t count) {
  const std::lock_guard<std::mutex> lock(taken_->mutex);
  const auto found = taken_->owners.find(owner);
  const size_t taken = found == taken_->owners.end() ? 0 : found->second;
  if (count == 0 || (taken > 0 && (taken >= most_ || count > most_ - taken))) return nullptr;
  taken_->owners[owner] = taken + count;
  return std::make_shared<const Place>(taken_, owner, count);
}

HttpReply FilePlaces::Refusal(const std::string& owner) const {
  const bool is_cluster = owner == kClusterOwner;
  const std::string who = is_cluster ? "callers that see all tenants have" : absl::StrCat("tenant ", owner, " has");
  HttpReply reply = HttpError(429, absl::StrCat(who, " ", most_, is_cluster ? " of their " : " of its ", kind_,
                                                " under way, which is the most at a time; try again in some seconds"));
  reply.headers.emplace_back("Retry-After", "5");
  return reply;
}

std::optional<HttpAnswer> FilePlaces::Take(const HttpIdentity& identity, HttpAnswer answer) {
  const std::string owner = OwnerOf(identity);
  std::shared_ptr<const void> place = Occupy(owner, 1);
  if (place == nullptr) {
    answer(Refusal(owner));
    return std::nullopt;
  }
  // shared: by the answer's copies. The one that is called takes the place out, so that no other copy holds it longer.
  const auto held = std::make_shared<std::shared_ptr<const void>>(std::move(place));
  return [held, owner, answer = std::move(answer)](HttpReply reply) {
    reply.held = std::exchange(*held, nullptr);
    reply.turn_of = owner;
    reply.is_long = true;
    answer(std::move(reply));
  };
}

HttpReply FilePlaces::Fit(const HttpIdentity& identity, HttpReply reply) {
  if (reply.body.empty()) return reply;
  Hold(identity, reply.body.size(), &reply);
  return reply;
}

bool FilePlaces::Hold(const HttpIdentity& identity, size_t count, HttpReply* reply) {
  reply->held = Occupy(OwnerOf(identity), count);
  if (reply->held != nullptr) return true;
  *reply = Refusal(OwnerOf(identity));
  return false;
}

}  // namespace farandole

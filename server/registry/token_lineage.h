#ifndef FARANDOLE_SERVER_REGISTRY_TOKEN_LINEAGE_H_
#define FARANDOLE_SERVER_REGISTRY_TOKEN_LINEAGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "farandole/v1/store.pb.h"

namespace farandole {

// Which token was made or rotated with which other, and when: so, which tokens a holder of one may have got. Its
// origins are those that a token was made or rotated with; derived from it are the tokens that it was an origin of. Not
// thread-safe; TokenTable guards it. Times are milliseconds since 1970. A walk takes time in proportion to the links
// that it passes.
class TokenLineage {
 public:
  // How a holder of an origin came to a token.
  struct Link {
    std::optional<int64_t> made_unix_ms = {};
    // The first and the last time at which the token was rotated with this origin.
    std::optional<int64_t> first_rotated_unix_ms = {};
    int64_t last_rotated_unix_ms = 0;

    // Since when the token may be in the hands of somebody who has had the origin since `since`; nullopt: never.
    std::optional<int64_t> TakenThrough(int64_t since_unix_ms) const;
    // The latest moment since which somebody may have had the origin and still come to the token by `until`; nullopt:
    // there is none.
    std::optional<int64_t> LatestFor(int64_t until_unix_ms) const;
  };
  using Links = absl::btree_map<std::string, Link>;
  using Times = absl::btree_map<std::string, int64_t>;

  // The same walk as ReachOf's, step by step. It is told the links, and points to nothing of the lineage, which may
  // change between two steps: the walk finds what it is told.
  class Walk {
   public:
    Walk(const std::string& id, int64_t since_unix_ms) { ways_.push({since_unix_ms, id}); }

    // Goes to the token that is taken next. False: there is none.
    bool Next();
    // The token where the walk is, and since when it is taken.
    const std::string& id() const { return at_.second; }
    int64_t since_unix_ms() const { return at_.first; }
    // Enters it: now its links can be followed.
    void Enter() { reached_.emplace(id(), since_unix_ms()); }
    // `other` is derived from it.
    void Follow(const std::string& other, const Link& link);
    // The tokens that were entered, and since when.
    const Times& reached() const { return reached_; }

   private:
    using Way = std::pair<int64_t, std::string>;

    // No token is taken earlier than its origin, so that the first way to a token is the earliest one.
    std::priority_queue<Way, std::vector<Way>, std::greater<Way>> ways_;
    Way at_ = {};
    Times reached_;
  };

  // Takes a token in, or its new record.
  void Put(const v1::TokenRecord& record);
  void Erase(const std::string& id);

  // By the id of the origin, or of the token that is derived.
  const Links& OriginsOf(const std::string& id) const { return LinksIn(origins_, id); }
  const Links& DerivedFrom(const std::string& id) const { return LinksIn(derived_, id); }

  // The tokens that a holder of `id` since `since` may have got, with `id` itself: since when, by the earliest way. The
  // walk does not enter a token for which `prune` is true, nor those that are reached by it alone.
  using Prune = std::function<bool(const std::string& id, int64_t since_unix_ms)>;
  Times ReachOf(const std::string& id, int64_t since_unix_ms, const Prune& prune = {}) const;
  // Those of `ids` of which a holder may have got, by any way, a token for which `is_good` is true.
  std::set<std::string> ThoseThatReach(const std::vector<std::string>& ids,
                                       const std::function<bool(const std::string& id)>& is_good) const;

 private:
  using Index = absl::btree_map<std::string, Links>;

  static const Links& LinksIn(const Index& index, const std::string& id);
  // `ids`, and all tokens that they are linked to by any way, whenever.
  std::set<std::string> Descendants(const std::vector<std::string>& ids) const;

  // By a token's id.
  Index origins_;
  Index derived_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_TOKEN_LINEAGE_H_

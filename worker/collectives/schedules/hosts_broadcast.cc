#include "worker/collectives/schedules/hosts_broadcast.h"

#include <vector>

#include "worker/collectives/schedules/binomial_tree_broadcast.h"

namespace farandole {

Schedule HostsBroadcast(const GroupShape& shape, int root, int64_t count, int64_t most_chunk) {
  const int root_host = shape.HostOf(root);
  std::vector<int> heads = shape.Column(0);
  heads[root_host] = root;
  const int head = heads[shape.host()];
  const TreePlace in_host = BinomialTreePlace(shape.local(), shape.local_size(), head - shape.first());
  TreePlace place;
  if (shape.position() == head) {
    const TreePlace among = BinomialTreePlace(shape.host(), shape.hosts(), root_host);
    place.parent = among.parent < 0 ? -1 : heads[among.parent];
    // Hosts first: they have the longer way.
    for (const int child : among.children) place.children.push_back(heads[child]);
  } else {
    place.parent = shape.first() + in_host.parent;
  }
  for (const int child : in_host.children) place.children.push_back(shape.first() + child);
  return TreeBroadcast("broadcast over hosts", place, count, most_chunk);
}

}  // namespace farandole

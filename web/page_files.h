#ifndef FARANDOLE_WEB_PAGE_FILES_H_
#define FARANDOLE_WEB_PAGE_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace farandole {

// A file of the dashboard, which the binary carries (web/app/bundle makes them).
struct PageFile {
  // "index.html", "login.html", or an address that has the content's hash in it, /assets/NAME-HASH.EXTENSION.
  std::string path;
  std::string content_type;
  std::string plain;
  // The same, compressed by gzip.
  std::string gzip;
};

// All of them. Never changes; any thread.
const std::vector<PageFile>& PageFiles();
// The one of that path; it must be there.
const PageFile& PageFileAt(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_WEB_PAGE_FILES_H_

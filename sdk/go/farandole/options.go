package farandole

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The environment variables of the Go SDK itself, and the only place where it reads the environment. docs/settings.md has
// those of the worker library (FARANDOLE_COORDINATOR and its relatives).
//
// FARANDOLE_LIBRARY          path of libfarandole.so; default: searched, see candidates
// FARANDOLE_DEEPBIND         0: open the library without RTLD_DEEPBIND, which ASan refuses; default 1
// FARANDOLE_DEPART_GRACE_MS  elastic: how long a process has between SIGTERM and its end; default 30000
const (
	libraryVariable     = "FARANDOLE_LIBRARY"
	deepbindVariable    = "FARANDOLE_DEEPBIND"
	departGraceVariable = "FARANDOLE_DEPART_GRACE_MS"
)

const libraryName = "libfarandole.so"

// candidates gives the paths at which the library is looked for, in this order. A path without a slash is left to the
// system's own search (LD_LIBRARY_PATH, /etc/ld.so.conf, /usr/lib).
func candidates() []string {
	if path := os.Getenv(libraryVariable); path != "" {
		return []string{path}
	}
	var paths []string
	if program, err := os.Executable(); err == nil {
		folder := filepath.Dir(program)
		paths = append(paths, filepath.Join(folder, libraryName), filepath.Join(folder, "..", "lib", libraryName))
	}
	// Environments of Python that have the wheel, or a checkout's package.
	if root := os.Getenv("VIRTUAL_ENV"); root != "" {
		paths = append(paths, librariesOf(root)...)
	}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		launcher := filepath.Join(folder, "farandole")
		if _, err := os.Stat(launcher); err != nil {
			continue
		}
		paths = append(paths, librariesOf(filepath.Dir(folder))...)
		paths = append(paths, filepath.Join(filepath.Dir(folder), "lib", libraryName))
	}
	return append(paths, libraryName)
}

// librariesOf gives where an environment of Python (its root folder) may have the library.
func librariesOf(root string) []string {
	var paths []string
	packages, _ := filepath.Glob(filepath.Join(root, "lib", "python3*", "site-packages"))
	for _, folder := range packages {
		paths = append(paths, filepath.Join(folder, "farandole", "_lib", libraryName))
		// `make install` leads .venv to the checkout by this file.
		if source, err := os.ReadFile(filepath.Join(folder, "farandole.pth")); err == nil {
			paths = append(paths, filepath.Join(firstLine(source), "farandole", "_lib", libraryName))
		}
	}
	return paths
}

func firstLine(text []byte) string {
	for i, letter := range text {
		if letter == '\n' {
			return string(text[:i])
		}
	}
	return string(text)
}

func deepbind() bool { return os.Getenv(deepbindVariable) != "0" }

func departGrace() (time.Duration, error) {
	text := os.Getenv(departGraceVariable)
	if text == "" {
		return 30 * time.Second, nil
	}
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s must be a number of milliseconds >= 0, not %q", departGraceVariable, text)
	}
	return time.Duration(number) * time.Millisecond, nil
}

// Package page gives tests the code of docs/go.md, so that it is built as it stands there.
package page

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

var blocks = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Block gives the only block of Go of the page at this path that has some text.
func Block(path, text string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var found []string
	for _, block := range blocks.FindAllStringSubmatch(string(content), -1) {
		if strings.Contains(block[1], text) {
			found = append(found, block[1])
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d blocks of %s have %q", len(found), path, text)
	}
	return found[0], nil
}

package client

import (
	"context"
	"fmt"
	"os"
	"strings"

	"farandole.dev/go/internal/fault"
)

// TokenSource gives the token to each call. The zero value gives none.
type TokenSource struct {
	// For people: " in /path".
	origin string
	read   func(ctx context.Context) (string, error)
}

// Token is a source of a token that never changes.
func Token(token string) TokenSource {
	return TokenFunc("", func(context.Context) (string, error) { return token, nil })
}

// TokenFile is a source that reads a file for each call, so that a new token in it counts from the next call on.
func TokenFile(path string) TokenSource {
	return TokenFunc("in "+path, func(context.Context) (string, error) {
		text, err := os.ReadFile(path)
		return string(text), err
	})
}

// TokenVariable is a source that reads a variable of the environment for each call.
func TokenVariable(name string) TokenSource {
	return TokenFunc("in the variable "+name, func(context.Context) (string, error) {
		text, found := os.LookupEnv(name)
		if !found {
			return "", fmt.Errorf("the variable is not set")
		}
		return text, nil
	})
}

// TokenFunc is a source that calls a function for each call, in its goroutine. Errors name the token by its origin, for
// instance "of Vault".
func TokenFunc(origin string, read func(ctx context.Context) (string, error)) TokenSource {
	if origin != "" {
		origin = " " + origin
	}
	return TokenSource{origin, read}
}

// token gives the token without blanks around it; "": none.
func (s TokenSource) token(ctx context.Context, address string) (string, error) {
	if s.read == nil {
		return "", nil
	}
	text, err := s.read(ctx)
	if err != nil {
		return "", fmt.Errorf("the token%s for coordinator %s cannot be read: %w", s.origin, address, err)
	}
	token := strings.TrimSpace(text)
	if token == "" {
		return "", fault.New(fault.Unauthenticated, fmt.Sprintf("the token%s for coordinator %s is empty", s.origin, address))
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", mismatch("the token%s for coordinator %s has the byte 0x%02x at position %d; a token is visible ASCII",
				s.origin, address, token[i], i)
		}
	}
	return token, nil
}

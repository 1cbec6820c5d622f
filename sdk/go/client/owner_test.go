package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const (
	noEnd       = "00000000:0000"
	anyEnd      = "00000000:1B9E" // 0.0.0.0:7070
	coordinator = "0100007F:1B9E" // 127.0.0.1:7070
	ownEnd      = "0100007F:C000" // 127.0.0.1:49152
	noEnd6      = "00000000000000000000000000000000:0000"
	anyEnd6     = "00000000000000000000000000000000:1B9E"
	mapped      = "0000000000000000FFFF00000100007F:1B9E"
	mappedOwn   = "0000000000000000FFFF00000100007F:C000"
)

func line(local, remote, state string, owner, inode int) string {
	return fmt.Sprintf("   0: %s %s %s 00000000:00000000 00:00000000 00000000 %5d        0 %d 1 00000000fadadaf6 100 0 0 10 0\n", local, remote, state, owner, inode)
}

// littleEndian skips a test of the tables of such a machine.
func littleEndian(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the tables are those of a little-endian machine")
	}
}

func check(lines string) error {
	trusted := users{ids: []int{0, 1000}, names: "the trusted"}
	rows := parseSocketTable("  sl  local_address rem_address\n" + lines)
	return checkOwner(netip.MustParseAddrPort("127.0.0.1:49152"), netip.MustParseAddrPort("127.0.0.1:7070"), trusted, rows)
}

func TestLinesOfTheTableOfSocketsThatAreNotUnderstoodAreLeftOut(t *testing.T) {
	for _, text := range []string{
		"", line("0100007F:", noEnd, "0A", 0, 1), line("0100007F:1FFFF", noEnd, "0A", 0, 1), line("010000:1B9E", noEnd, "0A", 0, 1),
		line("0100007G:1B9E", noEnd, "0A", 0, 1), line("0100007F0100007F:1B9E", noEnd, "0A", 0, 1), "   0: 0100007F:1B9E 00000000:0000 0A",
	} {
		if rows := parseSocketTable(text); len(rows) != 0 {
			t.Errorf("%q gives %v", text, rows)
		}
	}
}

func TestAProgramOfATrustedUserMayHaveTheOtherEnd(t *testing.T) {
	littleEndian(t)
	ours := line(coordinator, ownEnd, "01", 1000, 1)
	for _, lines := range []string{
		ours, line(mapped, mappedOwn, "01", 0, 1),
		// Other sockets do not matter.
		line(anyEnd, noEnd, "0A", 33, 1) + ours, line(anyEnd6, noEnd6, "0A", 33, 1) + ours,
		line(coordinator, "0100007F:C001", "01", 33, 1) + ours,
	} {
		if err := check(lines); err != nil {
			t.Errorf("%v of\n%s", err, lines)
		}
	}
}

func TestAProgramOfAnotherUserIsNamed(t *testing.T) {
	littleEndian(t)
	for _, lines := range []string{
		line(coordinator, ownEnd, "01", 33, 1),
		line(coordinator, noEnd, "0A", 1000, 1) + line(coordinator, ownEnd, "01", 33, 1),
	} {
		err := check(lines)
		if !errors.Is(err, ErrDenied) {
			t.Fatalf("%v of\n%s", err, lines)
		}
		for _, part := range []string{"port 7070 of this host belongs to a program of user ", "33", "not of the trusted: nothing was sent to it", "FARANDOLE_COORDINATOR_USERS"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v lacks %q", err, part)
			}
		}
	}
}

func TestAnEndThatNoProgramHasIsUnavailable(t *testing.T) {
	littleEndian(t)
	for _, lines := range []string{
		"", line(coordinator, noEnd, "0A", 1000, 1), line(coordinator, ownEnd, "01", 0, 0), line(ownEnd, coordinator, "01", 1000, 1),
	} {
		if err := check(lines); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v of\n%s", err, lines)
		}
	}
}

func TestRootAndOneselfAndThoseOfTheSettingAreTrusted(t *testing.T) {
	find := func(name string) int {
		if name == "farandole" {
			return 999
		}
		return -1
	}
	for _, row := range []struct {
		self   int
		listed string
		ids    []int
		anyone bool
	}{
		{1000, "", []int{0, 1000, 999}, false},
		{0, "nobody-here, 33", []int{0, 33}, false},
		{0, "*", []int{0}, true},
	} {
		trusted := trustedUsers(row.self, row.listed, find)
		if !slices.Equal(trusted.ids, row.ids) || trusted.anyone != row.anyone {
			t.Errorf("%+v gives %+v", row, trusted)
		}
	}
}

func TestAProgramOfTheSameUserMayAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if accepted, err := listener.Accept(); err == nil {
			defer accepted.Close()
			_, _ = accepted.Read(make([]byte, 1))
		}
	}()
	connection, err := dialOwned("")(context.Background(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
}

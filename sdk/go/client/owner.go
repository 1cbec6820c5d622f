package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"farandole.dev/go/internal/fault"
)

const (
	ownerSetting = "FARANDOLE_COORDINATOR_USERS"
	// The user of the packaged service.
	defaultOwner = "farandole"
	// A coordinator accepts a connection at once. The table is read up to so many times, with pauses that double, until it
	// has.
	readings  = 10
	firstLook = time.Millisecond
)

// dialOwned gives a function that connects to a coordinator of this host over plain TCP. Any user of the host may have
// taken the port, so the function asks the kernel which user owns the other end. It closes the connection before it sends
// anything, unless trustedUsers names that user.
func dialOwned(listed string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		trusted := trustedUsers(os.Geteuid(), listed, findUser)
		if trusted.anyone {
			return connection, nil
		}
		if err := awaitOwner(ctx, endOf(connection.LocalAddr()), endOf(connection.RemoteAddr()), trusted); err != nil {
			_ = connection.Close()
			return nil, err
		}
		return connection, nil
	}
}

// users are those whose programs may be the coordinator.
type users struct {
	anyone bool
	ids    []int
	// For people: "root or user 1000 or farandole".
	names string
}

// trustedUsers are root, the program's own user, and those that are listed: names or numbers with commas between them,
// "*" for anyone, "" for defaultOwner. A name without a user is skipped. find gives a name's user, -1: none.
func trustedUsers(self int, listed string, find func(name string) int) users {
	trusted := users{}
	var names []string
	add := func(id int, name string) {
		if !slices.Contains(trusted.ids, id) {
			trusted.ids = append(trusted.ids, id)
			names = append(names, name)
		}
	}
	add(0, "root")
	add(self, fmt.Sprintf("user %d", self))
	if listed == "" {
		listed = defaultOwner
	}
	for _, name := range strings.Split(listed, ",") {
		name = strings.TrimSpace(name)
		if name == "*" {
			trusted.anyone = true
		} else if id, err := strconv.Atoi(name); err == nil {
			add(id, fmt.Sprintf("user %d", id))
		} else if id := find(name); id >= 0 {
			add(id, name)
		}
	}
	trusted.names = strings.Join(names, " or ")
	return trusted
}

func findUser(name string) int {
	found, err := user.Lookup(name)
	if err != nil {
		return -1
	}
	id, err := strconv.Atoi(found.Uid)
	if err != nil {
		return -1
	}
	return id
}

// socketRow is a line of /proc/net/tcp or /proc/net/tcp6 (proc(5)). The owner is the user of the program that created or
// accepted the socket. Ignore it if the inode is 0: no program holds the socket, because none has accepted it yet, or all
// have closed it.
type socketRow struct {
	local, remote netip.AddrPort
	owner         int
	inode         uint64
}

func readSocketTables() ([]socketRow, error) {
	var rows []socketRow
	var failed error
	read := 0
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(path)
		if err != nil {
			failed = err
			continue
		}
		read++
		rows = append(rows, parseSocketTable(string(text))...)
	}
	if read > 0 {
		return rows, nil
	}
	return nil, fault.New(fault.PermissionDenied, fmt.Sprintf("the kernel's table of sockets, by which this program knows whose program has the coordinator's port, cannot be read (%v): use TLS (FARANDOLE_CA_FILE), or set %s=* where every user of this host is trusted", failed, ownerSetting))
}

// parseSocketTable leaves out the lines that it does not understand.
func parseSocketTable(text string) []socketRow {
	var rows []socketRow
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 10 {
			continue
		}
		local, isLocal := parseEnd(fields[1])
		remote, isRemote := parseEnd(fields[2])
		owner, err := strconv.Atoi(fields[7])
		inode, noInode := strconv.ParseUint(fields[9], 10, 64)
		if !isLocal || !isRemote || err != nil || noInode != nil {
			continue
		}
		rows = append(rows, socketRow{local: local, remote: remote, owner: owner, inode: inode})
	}
	return rows
}

// parseEnd reads "0100007F:1B9E": words of the address as the processor has them, and the port.
func parseEnd(text string) (netip.AddrPort, bool) {
	words, portText, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil || (len(words) != 8 && len(words) != 32) {
		return netip.AddrPort{}, false
	}
	var bytes []byte
	for ; words != ""; words = words[8:] {
		word, err := strconv.ParseUint(words[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, false
		}
		bytes = binary.NativeEndian.AppendUint32(bytes, uint32(word))
	}
	address, _ := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(address.Unmap(), uint16(port)), true
}

func endOf(address net.Addr) netip.AddrPort {
	end := address.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(end.Addr().Unmap().WithZone(""), end.Port())
}

// awaitOwner is checkOwner by the kernel's tables, as soon as a program has accepted the connection.
func awaitOwner(ctx context.Context, local, remote netip.AddrPort, trusted users) error {
	pause := firstLook
	for reading := 1; ; reading++ {
		rows, err := readSocketTables()
		if err == nil {
			err = checkOwner(local, remote, trusted, rows)
		}
		if err == nil || !errors.Is(err, ErrUnavailable) || reading == readings {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// checkOwner tells whether the other end of a connection to this host belongs to a program of a trusted user.
// ErrDenied: it is of another user, who is named. ErrUnavailable: no program has it, since none has accepted it yet, or it
// has been closed.
func checkOwner(local, remote netip.AddrPort, trusted users, rows []socketRow) error {
	if trusted.anyone {
		return nil
	}
	for _, row := range rows {
		if row.inode == 0 || row.local != remote || row.remote != local {
			continue
		}
		if slices.Contains(trusted.ids, row.owner) {
			return nil
		}
		return fault.New(fault.PermissionDenied, fmt.Sprintf("port %d of this host belongs to a program of user %s, not of %s: nothing was sent to it. Name the user who runs the coordinator in %s, or use TLS (FARANDOLE_CA_FILE)", remote.Port(), nameOf(row.owner), trusted.names, ownerSetting))
	}
	return fault.New(fault.Unavailable, "no program has the other end of the connection")
}

func nameOf(id int) string {
	if found, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return fmt.Sprintf("%s (%d)", found.Username, id)
	}
	return fmt.Sprintf("number %d", id)
}

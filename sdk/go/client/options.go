package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"farandole.dev/go/internal/fault"
)

const (
	defaultPatience = 10 * time.Second
	defaultInterval = time.Second
	// The group may read a key: Kubernetes gives the secrets that it mounts to the group of the pod.
	everybody = 0o007
)

// Options say where a coordinator is and how this program proves that it may speak to it.
type Options struct {
	// Address is HOST:PORT.
	Address string
	// Token gives the tenant's token to each call. The zero value sends none.
	Token TokenSource
	// TLS is nil for a coordinator that speaks none. Such a coordinator is on this host: New refuses other addresses,
	// since the token would travel in the clear.
	TLS *TLS
	// CoordinatorUsers are, without TLS, users of this host, besides root and the program's own, whose programs may have
	// the coordinator's port: names or numbers with commas between them, "*" for anyone, "" for farandole.
	CoordinatorUsers string
	// Patience is for how long a call tries again while the coordinator is away, or has no room and says when to retry: 10 s
	// if it is 0, and not at all if it is negative. The call's context ends it earlier.
	Patience time.Duration
	// WatchInterval is how often a Watch asks the coordinator: 1 s if it is 0.
	WatchInterval time.Duration
}

// TLS names the files, in PEM, by which both sides know each other. New reads them.
type TLS struct {
	// CAFile holds the certificates that the coordinator's descends from. "": those of the system.
	CAFile string
	// CertFile and KeyFile prove this program to the coordinator where it has no token, or to a proxy that wants a
	// certificate. "": none. When the files hold another certificate, the next call is made with that.
	CertFile, KeyFile string
	// ServerName is the name in the coordinator's certificate. "": the host of the address.
	ServerName string
}

// FromEnvironment gives the options that workers and `farandole run` use as well: FARANDOLE_COORDINATOR,
// FARANDOLE_TOKEN_FILE, FARANDOLE_CA_FILE, and with that FARANDOLE_CERT_FILE and FARANDOLE_KEY_FILE;
// FARANDOLE_COORDINATOR_USERS. ErrMismatch: there is no FARANDOLE_COORDINATOR.
func FromEnvironment() (Options, error) {
	options := Options{Address: os.Getenv("FARANDOLE_COORDINATOR"), CoordinatorUsers: os.Getenv("FARANDOLE_COORDINATOR_USERS")}
	if options.Address == "" {
		return Options{}, mismatch("FARANDOLE_COORDINATOR is not set: it is HOST:PORT of the coordinator")
	}
	if path := os.Getenv("FARANDOLE_TOKEN_FILE"); path != "" {
		options.Token = TokenFile(path)
	}
	if path := os.Getenv("FARANDOLE_CA_FILE"); path != "" {
		options.TLS = &TLS{CAFile: path, CertFile: os.Getenv("FARANDOLE_CERT_FILE"), KeyFile: os.Getenv("FARANDOLE_KEY_FILE")}
	}
	return options, nil
}

func mismatch(format string, values ...any) error {
	return fault.New(fault.InvalidArgument, fmt.Sprintf(format, values...))
}

// isLocal tells whether an address is of this host.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	number := net.ParseIP(host)
	return host == "localhost" || number != nil && number.IsLoopback()
}

// config reads the files.
func (t *TLS) config(address string) (*tls.Config, error) {
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, NextProtos: []string{"h2"}}
	if host, _, err := net.SplitHostPort(address); err == nil && made.ServerName == "" {
		made.ServerName = host
	}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the CA file for coordinator %s cannot be read: %w", address, err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(text) {
			return nil, mismatch("the CA file %s for coordinator %s holds no certificate in PEM", t.CAFile, address)
		}
	}
	if t.CertFile == "" && t.KeyFile == "" {
		return made, nil
	}
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, mismatch("a certificate for coordinator %s needs its key: CertFile is %q, KeyFile is %q", address, t.CertFile, t.KeyFile)
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := t.readPair()
		if err != nil {
			return nil, fmt.Errorf("the certificate %s with the key %s for coordinator %s cannot be used: %w", t.CertFile, t.KeyFile, address, err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	made.GetClientCertificate = load
	return made, nil
}

// readPair reads the files of the client's certificate and key. ErrDenied: every user of the host may read the key.
func (t *TLS) readPair() (pair tls.Certificate, err error) {
	certificate, err := os.ReadFile(t.CertFile)
	if err != nil {
		return pair, err
	}
	file, err := os.Open(t.KeyFile)
	if err != nil {
		return pair, err
	}
	defer file.Close()
	facts, err := file.Stat()
	if err != nil {
		return pair, err
	}
	if facts.Mode().Perm()&everybody != 0 {
		return pair, fault.New(fault.PermissionDenied, fmt.Sprintf("the key file %s has mode %04o, so that every user of this host may read it; make it private with `chmod 600 %s`", t.KeyFile, facts.Mode().Perm(), t.KeyFile))
	}
	key, err := io.ReadAll(file)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(certificate, key)
}

// watchPair gives a function that tells whether the files hold another certificate than at its last call, with a key that
// fits. Files that are being replaced do not fit for a moment; the old certificate may still do.
func (t *TLS) watchPair() func() bool {
	seen, _ := t.readPair()
	return func() bool {
		pair, err := t.readPair()
		if err != nil || slices.EqualFunc(pair.Certificate, seen.Certificate, bytes.Equal) {
			return false
		}
		seen = pair
		return true
	}
}

// explain gives the sentence of a handshake that failed; nil: it tells nothing about TLS.
func (t *TLS) explain(address string, err error) error {
	authorities := "the system's certificates"
	if t.CAFile != "" {
		authorities = t.CAFile
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	var remote *net.OpError
	text := ""
	switch {
	case errors.As(err, &unknown):
		text = fmt.Sprintf("has a certificate that descends from no authority in %s (%v)", authorities, err)
	case errors.As(err, &name), errors.As(err, &invalid):
		text = fmt.Sprintf("has a certificate that does not prove it (%v)", err)
	case errors.As(err, &plain):
		text = fmt.Sprintf("does not speak TLS, and the authorities in %s were given", authorities)
	case errors.As(err, &remote) && remote.Op == "remote error":
		text = fmt.Sprintf("refused the handshake with %s (%v)", t.proof(), err)
	default:
		return nil
	}
	return fault.New(fault.Unauthenticated, "coordinator "+address+" "+text)
}

func (t *TLS) proof() string {
	if t.CertFile == "" {
		return "no certificate of this program"
	}
	return "the certificate " + t.CertFile
}

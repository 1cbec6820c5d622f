package client

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farandole.dev/go/client"
)

// makeCertificate writes a certificate that is its own authority, for localhost and these URIs, and its key.
func makeCertificate(t *testing.T, uris ...string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, uri := range uris {
		parsed, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certificate, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

func TestTLSProvesTheCoordinator(t *testing.T) {
	ctx := limited(t)
	certificate, key := makeCertificate(t)
	other, _ := makeCertificate(t)
	shared := serve(t, "--tls-cert", certificate, "--tls-key", key)
	with := func(given *client.TLS) *client.Client {
		return shared.open(func(options *client.Options) { options.TLS = given })
	}
	if _, err := with(&client.TLS{CAFile: certificate}).Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := with(&client.TLS{CAFile: other}).Jobs(ctx)
	requireError(t, err, client.ErrDenied, "coordinator "+shared.address+" has a certificate that descends from no authority in "+other+" (")
	_, err = with(&client.TLS{CAFile: certificate, ServerName: "elsewhere"}).Jobs(ctx)
	requireError(t, err, client.ErrDenied, "has a certificate that does not prove it", "elsewhere")
	_, err = with(nil).Jobs(ctx)
	requireError(t, err, client.ErrDenied, "coordinator "+shared.address+" speaks TLS, and no CA file was given")

	plain := serve(t)
	wrong := plain.open(func(options *client.Options) { options.TLS = &client.TLS{CAFile: certificate} })
	_, err = wrong.Jobs(ctx)
	requireError(t, err, client.ErrDenied, "coordinator "+plain.address+" does not speak TLS, and the authorities in "+certificate+" were given")
	_, err = client.New(client.Options{Address: "10.1.2.3:7070"})
	requireError(t, err, client.ErrMismatch, "10.1.2.3:7070", "the token would travel in the clear")
	_, err = client.New(client.Options{Address: "unix:/run/coordinator", Token: client.Token("secret")})
	requireError(t, err, client.ErrMismatch, "unix:/run/coordinator is no HOST:PORT")
	_, err = client.New(client.Options{Address: "127.0.0.1:1", TLS: &client.TLS{CAFile: key}})
	requireError(t, err, client.ErrMismatch, key, "holds no certificate")
}

func TestAnotherUsersProgramOnThePortGetsNoCall(t *testing.T) {
	ctx := limited(t)
	const nobody = "65534"
	impostor := exec.Command(checkout(t, ".venv/bin/python"), checkout(t, "tests/integration/programs/impostor.py"), nobody, "0")
	output, err := impostor.StdoutPipe()
	if err == nil {
		err = impostor.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = impostor.Process.Kill()
		_ = impostor.Wait()
	}()
	lines := bufio.NewScanner(output)
	lines.Scan()
	port := strings.TrimPrefix(lines.Text(), "port ")
	options := client.Options{Address: "127.0.0.1:" + port, Token: client.Token("farandole_token"), Patience: -1}
	refused, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = refused.Jobs(ctx)
	_ = refused.Close()
	requireError(t, err, client.ErrUnavailable, "port "+port+" of this host belongs to a program of user nobody ("+nobody+"), not of root", "nothing was sent to it")
	for lines.Text() != "ended" {
		if !lines.Scan() || strings.HasPrefix(lines.Text(), "frame") {
			t.Fatalf("before it was trusted the impostor got %q", lines.Text())
		}
	}
	// The same program gets the call of those who trust its user.
	options.CoordinatorUsers = "root," + nobody
	believing, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer believing.Close()
	_, _ = believing.Jobs(ctx)
	for lines.Text() != "frame 1" {
		if !lines.Scan() {
			t.Fatal("the impostor that was trusted got no call")
		}
	}
}

func TestACertificateStandsForAToken(t *testing.T) {
	ctx := limited(t)
	certificate, key := makeCertificate(t)
	own, ownKey := makeCertificate(t, "spiffe://example.org/tenant/default/viewer")
	other, otherKey := makeCertificate(t, "spiffe://other.org/tenant/default/viewer")
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	text := []byte{}
	for _, path := range []string{own, other} {
		one, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
	}
	if err := os.WriteFile(authorities, text, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := serve(t, "--tls-cert", certificate, "--tls-key", key, "--client-ca", authorities, "--trust-domain", "example.org")
	with := func(cert, key string) *client.Client {
		return shared.open(func(options *client.Options) {
			options.Token = client.TokenSource{}
			options.TLS = &client.TLS{CAFile: certificate, CertFile: cert, KeyFile: key}
		})
	}
	if _, err := with(own, ownKey).Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := with(other, otherKey).Jobs(ctx)
	requireError(t, err, client.ErrDenied, "is for spiffe://other.org/tenant/default/viewer of another trust domain")
	_, err = with("", "").Jobs(ctx)
	requireError(t, err, client.ErrDenied, "connect with a certificate")

	// A connection lives on, and the next call is made with the files as they are then.
	folder := t.TempDir()
	cert, certKey := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	replace := func(newCert, newKey string) {
		for from, to := range map[string]string{newCert: cert, newKey: certKey} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	replace(own, ownKey)
	renewed := with(cert, certKey)
	if _, err := renewed.Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	replace(other, otherKey)
	_, err = renewed.Jobs(ctx)
	requireError(t, err, client.ErrDenied, "is for spiffe://other.org/tenant/default/viewer of another trust domain")
	replace(own, ownKey)
	if _, err := renewed.Jobs(ctx); err != nil {
		t.Fatal(err)
	}

	if err := os.Chmod(ownKey, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = client.New(client.Options{Address: shared.address, TLS: &client.TLS{CertFile: own, KeyFile: ownKey}})
	requireError(t, err, client.ErrDenied, "the key file "+ownKey+" has mode 0644")
}

// proxy speaks TLS for a coordinator that speaks none, with programs that have one of the authorities' certificates only.
func proxy(t *testing.T, address, certificate, key, authority string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				if near.(*tls.Conn).Handshake() != nil {
					return
				}
				far, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer far.Close()
				go func() { _, _ = io.Copy(far, near) }()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestTLSProvesTheProgramToAProxy(t *testing.T) {
	ctx, shared := limited(t), serve(t)
	certificate, key := makeCertificate(t)
	own, ownKey := makeCertificate(t)
	address := proxy(t, shared.address, certificate, key, own)
	with := func(given client.TLS) *client.Client {
		return shared.open(func(options *client.Options) { options.Address, options.TLS = address, &given })
	}
	if _, err := with(client.TLS{CAFile: certificate, CertFile: own, KeyFile: ownKey}).Jobs(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := with(client.TLS{CAFile: certificate}).Jobs(ctx)
	requireError(t, err, client.ErrDenied, "coordinator "+address+" refused the handshake with no certificate of this program")
	_, err = client.New(client.Options{Address: address, TLS: &client.TLS{CertFile: own}})
	requireError(t, err, client.ErrMismatch, "needs its key", own)
}

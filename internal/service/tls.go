package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/ownfile"
)

// Certificates are a certificate and its key in two files, which are read again when
// they change.
type Certificates struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	now    *tls.Certificate
	stamps [2]stamp
	looked time.Time
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// lookEvery is how long a handshake trusts what the last one found.
const lookEvery = 5 * time.Second

// LoadCertificates reads the two PEM files. They must belong to root or this user and
// be writable by nobody else; the key must be readable by nobody else.
func LoadCertificates(cert, key string, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{cert: cert, key: key, log: log}
	return c, c.Reload()
}

// Reload reads the files again. With an error the certificate stays what it was.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reload()
}

func (c *Certificates) reload() error {
	c.looked, c.stamps = time.Now(), c.stampsNow()
	read := func(path string, secret bool) ([]byte, error) {
		b, err := ownfile.Read(path, ownfile.Options{MaxBytes: 1 << 20, Secret: secret})
		if at := (*fs.PathError)(nil); errors.As(err, &at) {
			err = at.Err
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return b, nil
	}
	cert, err := read(c.cert, false)
	if err != nil {
		return err
	}
	key, err := read(c.key, true)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s: %w", c.cert, err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		c.log.Warn("the certificate is out of date", "file", c.cert, "since", end)
	}
	c.now = &pair
	return nil
}

func (c *Certificates) stampsNow() (s [2]stamp) {
	for i, path := range []string{c.cert, c.key} {
		if st, err := os.Stat(path); err == nil {
			s[i] = stamp{st.ModTime(), st.Size()}
		}
	}
	return s
}

// get is asked by every handshake.
func (c *Certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= lookEvery {
		c.looked = time.Now()
		if c.stampsNow() != c.stamps {
			if err := c.reload(); err != nil {
				c.log.Error("the certificate was not read again; the one before stays", "error", err)
			} else {
				c.log.Info("the certificate was read again", "until", c.now.Leaf.NotAfter)
			}
		}
	}
	return c.now, nil
}

// config is TLS 1.2 and newer, with HTTP/1.1 behind it. It has no keys for encrypted
// client hellos.
func (c *Certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}

// A server and a client of QUIC: `quic serve` echoes each stream, `quic fetch HOST` sends a megabyte through one and tells what became
// of it, and whether explicit congestion notification (ECN) works on the way there and back.
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/logging"
)

const port = "4433"

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "fetch":
		fetch(os.Args[2])
	default:
		os.Exit(2)
	}
}

// What quic-go finds out about ECN on each connection, in its order.
func config(who string) *quic.Config {
	names := map[logging.ECNState]string{
		logging.ECNStateTesting: "testing",
		logging.ECNStateUnknown: "unknown",
		logging.ECNStateFailed:  "failed",
		logging.ECNStateCapable: "capable",
	}
	var lock sync.Mutex
	tracer := &logging.ConnectionTracer{
		ECNStateUpdated: func(state logging.ECNState, trigger logging.ECNStateTrigger) {
			lock.Lock()
			defer lock.Unlock()
			fmt.Printf("%s: ECN %s\n", who, names[state])
		},
	}
	return &quic.Config{
		Tracer: func(context.Context, logging.Perspective, quic.ConnectionID) *logging.ConnectionTracer { return tracer },
	}
}

func certificate() tls.Certificate {
	public, private, err := ed25519.GenerateKey(nil)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	bytes, err := x509.CreateCertificate(nil, template, template, public, private)
	must(err)
	return tls.Certificate{Certificate: [][]byte{bytes}, PrivateKey: private}
}

func serve() {
	security := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"echo"}}
	listener, err := quic.ListenAddr(":"+port, security, config("server"))
	must(err)
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		conn, err := listener.Accept(ended)
		if err != nil {
			return
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go func() {
					defer stream.Close()
					io.Copy(stream, stream)
				}()
			}
		}()
	}
}

func fetch(host string) {
	security := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"echo"}}
	conn, err := quic.DialAddr(context.Background(), host+":"+port, security, config("client"))
	must(err)
	stream, err := conn.OpenStreamSync(context.Background())
	must(err)
	sent := bytes.Repeat([]byte("all of it comes back\n"), 50_000)
	go func() {
		stream.Write(sent)
		stream.Close()
	}()
	got, err := io.ReadAll(stream)
	must(err)
	fmt.Println("echoed:", bytes.Equal(got, sent))
	must(conn.CloseWithError(0, ""))
}

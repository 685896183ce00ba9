// A guest in Go: `guest serve` serves HTTP until a signal asks it to end, `guest fetch HOST` is its client, `guest alone` does what
// needs no other host. All output is the same in every run on every machine.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const port = "8080"

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
	case len(os.Args) == 2 && os.Args[1] == "alone":
		alone()
	default:
		os.Exit(2)
	}
}

func handler(requests *int64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/page/", func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(requests, 1)
		w.Write(bytes.Repeat([]byte(r.URL.Path+"\n"), 5000))
	})
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(requests, 1)
		hash := sha256.New()
		length, err := io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%d %x %v", length, hash.Sum(nil)[:4], err)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(requests, 1)
		select {
		case <-r.Context().Done():
		case <-time.After(time.Hour):
		}
	})
	return mux
}

func serve() {
	var requests int64
	server := http.Server{Addr: ":" + port, Handler: handler(&requests)}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	ended := make(chan error)
	go func() { ended <- server.ListenAndServe() }()
	fmt.Println(<-asked)
	must(server.Shutdown(context.Background()))
	fmt.Println(<-ended, requests)
}

func fetch(host string) {
	base := "http://" + net.JoinHostPort(host, port)
	lines := make([]string, 40)
	var group sync.WaitGroup
	for i := range lines {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			answer, err := http.Get(fmt.Sprintf("%s/page/%d", base, i))
			must(err)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			must(err)
			lines[i] = fmt.Sprint(answer.StatusCode, " ", len(body), " ", strings.SplitN(string(body), "\n", 2)[0])
		}(i)
	}
	group.Wait()
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
	answer, err := http.Post(base+"/sum", "text/plain", strings.NewReader(strings.Repeat("body ", 200000)))
	must(err)
	body, err := io.ReadAll(answer.Body)
	must(err)
	fmt.Println(string(body))
	start := time.Now()
	limited := http.Client{Timeout: 3 * time.Second}
	_, err = limited.Get(base + "/slow")
	var timeout net.Error
	fmt.Println("timeout", errors.As(err, &timeout) && timeout.Timeout(), time.Since(start).Round(time.Second))
	_, err = http.Get("http://nobody.invalid/")
	var unknown *net.DNSError
	fmt.Println("no such host", errors.As(err, &unknown) && unknown.IsNotFound)
	_, err = http.Get("http://" + net.JoinHostPort(host, "9"))
	fmt.Println("refused", errors.Is(err, syscall.ECONNREFUSED))
}

func alone() {
	runtime.GOMAXPROCS(4)
	local()
	goroutines()
	garbage()
	processes()
	signals()
	timers()
	files()
	panics()
}

func local() {
	var requests int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go http.Serve(listener, handler(&requests))
	for i := 0; i < 3; i++ {
		answer, err := http.Get(fmt.Sprintf("http://%s/page/%d", listener.Addr(), i))
		must(err)
		body, err := io.ReadAll(answer.Body)
		must(err)
		fmt.Println(answer.Status, len(body))
	}
}

func goroutines() {
	var mutex sync.Mutex
	var group sync.WaitGroup
	sum, numbers := 0, make(chan int)
	for i := 0; i < 2000; i++ {
		group.Add(2)
		go func(i int) { defer group.Done(); numbers <- i }(i)
		go func() { defer group.Done(); n := <-numbers; mutex.Lock(); sum += n; mutex.Unlock() }()
	}
	group.Wait()
	fmt.Println("sum", sum)
}

func garbage() {
	var group sync.WaitGroup
	var kept [8][]*[4096]byte
	for i := range kept {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 3000; j++ {
				kept[i] = append(kept[i], new([4096]byte))
				kept[i][j][i] = byte(j)
				if len(kept[i])%100 == 0 {
					kept[i][j-50] = nil
				}
			}
		}(i)
	}
	group.Wait()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	total := 0
	for i := range kept {
		for _, block := range kept[i] {
			if block != nil {
				total += int(block[i])
			}
		}
	}
	fmt.Println("collected", stats.NumGC > 0, total)
}

func processes() {
	out, err := exec.Command("sh", "-c", "cat; echo to stderr >&2; exit 3").Output()
	var exit *exec.ExitError
	fmt.Println(string(out), errors.As(err, &exit), exit.ExitCode(), strings.TrimSpace(string(exit.Stderr)))
	command := exec.Command("tr", "a-z", "A-Z")
	command.Stdin = strings.NewReader(strings.Repeat("some text ", 30000))
	out, err = command.Output()
	fmt.Println(len(out), string(out[:9]), err)
	limit, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fmt.Println(exec.CommandContext(limit, "sleep", "100").Run())
	var group sync.WaitGroup
	for i := 0; i < 10; i++ {
		group.Add(1)
		go func() { defer group.Done(); must(exec.Command("true").Run()) }()
	}
	group.Wait()
	_, err = exec.Command("no-such-command").Output()
	fmt.Println(errors.Is(err, exec.ErrNotFound))
}

func signals() {
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, syscall.SIGUSR1, syscall.SIGHUP)
	for _, number := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		must(syscall.Kill(os.Getpid(), number))
		fmt.Println(<-caught)
	}
}

func timers() {
	start, ticks := time.Now(), 0
	ticker := time.NewTicker(20 * time.Millisecond)
	for range ticker.C {
		if ticks++; ticks == 5 {
			break
		}
	}
	ticker.Stop()
	fmt.Println("ticks", ticks, time.Since(start) >= 100*time.Millisecond)
	fired := make(chan bool)
	time.AfterFunc(10*time.Millisecond, func() { fired <- true })
	fmt.Println(<-fired)
}

func files() {
	folder, err := os.MkdirTemp("", "guest")
	must(err)
	defer os.RemoveAll(folder)
	for _, name := range []string{"c", "a", "b"} {
		must(os.WriteFile(folder+"/"+name, bytes.Repeat([]byte(name), 1000), 0o600))
	}
	entries, err := os.ReadDir(folder)
	must(err)
	for _, entry := range entries {
		info, err := entry.Info()
		must(err)
		fmt.Println(entry.Name(), info.Size(), info.Mode())
	}
}

func panics() {
	defer func() { fmt.Println("recovered:", recover()) }()
	var nothing *int
	fmt.Println(*nothing)
}

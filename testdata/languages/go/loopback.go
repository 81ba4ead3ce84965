// A web server and its clients on the cell's own loopback.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

func main() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", string(body))
	}))
	defer srv.Close()
	var wg sync.WaitGroup
	answers := make([]string, 10)
	for i := range answers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			res, err := http.Post(fmt.Sprint(srv.URL, "/", i), "text/plain", strings.NewReader("body"))
			if err != nil {
				answers[i] = err.Error()
				return
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			answers[i] = string(b)
		}()
	}
	wg.Wait()
	fmt.Println(answers[0], answers[9])
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			fmt.Println(err)
			continue
		}
		go func() {
			c, _ := l.Accept()
			io.Copy(c, c)
			c.Close()
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Fprint(c, "echo")
		c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		fmt.Println(at, string(b))
	}
	_, err := net.Dial("tcp", "192.0.2.1:80")
	fmt.Println(err)
	_, err = net.Listen("unix", "/tmp/socket")
	fmt.Println(err)
}

// Answers questions about a pod's surroundings over HTTP on port 8080, for tests of the cluster itself.
//
//	/lookup?name=N          addresses that DNS gives for N, one a line
//	/write?path=P&text=T    writes a file
//	/read?path=P            its content
//	/api?path=P             status code of a GET to the API server with the pod's own token
//	/dial?address=HOST:PORT whether a TCP connection opens within two seconds
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func answer(text string, err error, w http.ResponseWriter) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, text)
}

func lookup(w http.ResponseWriter, r *http.Request) {
	found, err := net.LookupHost(r.FormValue("name"))
	answer(strings.Join(found, "\n"), err, w)
}

func write(w http.ResponseWriter, r *http.Request) {
	answer("written", os.WriteFile(r.FormValue("path"), []byte(r.FormValue("text")), 0o644), w)
}

func read(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(r.FormValue("path"))
	answer(string(content), err, w)
}

func dial(w http.ResponseWriter, r *http.Request) {
	connection, err := net.DialTimeout("tcp", r.FormValue("address"), 2*time.Second)
	if err == nil {
		connection.Close()
	}
	answer("open", err, w)
}

func api(w http.ResponseWriter, r *http.Request) {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		answer("", err, w)
		return
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		answer("", err, w)
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, err := http.NewRequest(http.MethodGet, "https://kubernetes.default.svc"+r.FormValue("path"), nil)
	if err != nil {
		answer("", err, w)
		return
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	response, err := client.Do(request)
	if err != nil {
		answer("", err, w)
		return
	}
	defer response.Body.Close()
	answer(fmt.Sprint(response.StatusCode), nil, w)
}

func main() {
	for path, handler := range map[string]http.HandlerFunc{
		"/lookup": lookup, "/write": write, "/read": read, "/dial": dial, "/api": api,
	} {
		http.HandleFunc(path, handler)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ended
		os.Exit(0)
	}()
	if err := http.ListenAndServe(":8080", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

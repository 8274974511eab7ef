// Load raises the replicas of many Deployments, one at each client, or makes Pods, as fast as they are answered.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// perConnection bounds what shares an HTTP/2 connection: an API server takes 100 requests on one.
const perConnection = 50

func main() {
	server := flag.String("server", "", "URL of the API server")
	folder := flag.String("folder", "", "with ca.crt, admin.crt and admin.key")
	clients := flag.Int("clients", 1, "how many at a time")
	first := flag.Int("first", 0, "the count of the first write")
	seconds := flag.Float64("seconds", 1, "for how long")
	maker := flag.String("pods-by", "", "make Pods in this user's name, and raise nothing")
	flag.Parse()
	config := trust(*folder)
	end := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	took := make([][]float64, *clients)
	var failed atomic.Int64
	var all sync.WaitGroup
	var http2 *http.Client
	for number := range *clients {
		if number%perConnection == 0 {
			http2 = &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		}
		all.Add(1)
		go func(client *http.Client) {
			defer all.Done()
			for count := *first; time.Now().Before(end); count++ {
				request := raise(*server, number, count)
				if *maker != "" {
					request = pod(*server, number, count, *maker)
				}
				seconds, ok := send(client, request)
				if !ok {
					failed.Add(1)
				}
				took[number] = append(took[number], seconds)
			}
		}(http2)
	}
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"took": took, "failed": failed.Load()}); err != nil {
		log.Fatal(err)
	}
}

// raise is the write of a count.
func raise(server string, number, count int) *http.Request {
	url := fmt.Sprintf("%s/apis/apps/v1/namespaces/load/deployments/web-%d/scale", server, number)
	body := fmt.Sprintf(`[{"op":"add","path":"/spec/replicas","value":%d}]`, count)
	return request("PATCH", url, body, "application/json-patch+json")
}

// pod is the create of a Pod, in somebody's name.
func pod(server string, number, count int, maker string) *http.Request {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%d-%d","labels":{"app":"web"}},"spec":{`+
		`"containers":[{"name":"main","image":"registry.test/app:1","resources":{"requests":{"cpu":"1m"}}}]}}`, number, count)
	made := request("POST", server+"/api/v1/namespaces/load/pods", body, "application/json")
	made.Header.Set("impersonate-user", maker)
	made.Header.Set("impersonate-group", "system:masters")
	return made
}

func request(method, url, body, media string) *http.Request {
	made, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	made.Header.Set("content-type", media)
	return made
}

// send says how many seconds one write took, and whether it was done.
func send(client *http.Client, request *http.Request) (float64, bool) {
	start := time.Now()
	answer, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return time.Since(start).Seconds(), answer.StatusCode/100 == 2
}

func trust(folder string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(folder+"/admin.crt", folder+"/admin.key")
	if err != nil {
		log.Fatal(err)
	}
	pem, err := os.ReadFile(folder + "/ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities}
}

#!/bin/bash
# The pod network of one node: writes the CNI settings for its own range of pods, and a route to each other node's range.
set -u
credentials=/var/run/secrets/kubernetes.io/serviceaccount
settings=/etc/cni/net.d

configure() { # name, range of pods and address of a node
  [ -n "$2" ] && [ -n "$3" ] || return 0
  if [ "$1" != "$NODE_NAME" ]; then
    ip route replace "$2" via "$3"
    return
  fi
  local masquerade=(POSTROUTING -s "$2" ! -d "$POD_SUBNET" -j MASQUERADE)
  iptables -w -t nat -C "${masquerade[@]}" 2>/dev/null || iptables -w -t nat -A "${masquerade[@]}"
  [ -e $settings/10-pods.conflist ] && return
  # Without kube-proxy's rule the first call to the API waits 30 seconds for its second attempt, CoreDNS' for example.
  for _ in $(seq 50); do
    iptables -w -t nat -S KUBE-SERVICES 2>/dev/null | grep -q default/kubernetes && break
    sleep 0.2
  done
  cat > $settings/.unfinished <<SETTINGS
{"cniVersion": "0.3.1", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
   "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "$2"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
SETTINGS
  mv $settings/.unfinished $settings/10-pods.conflist
}

nodes="https://$CONTROL_PLANE_ENDPOINT/api/v1/nodes?watch=1&timeoutSeconds=300"
fields='select(.type == "ADDED" or .type == "MODIFIED") | .object | [.metadata.name, .spec.podCIDR // "",
  ([.status.addresses[]? | select(.type == "InternalIP").address][0] // "")] | join("|")'
while true; do
  curl --silent --show-error --no-buffer --cacert $credentials/ca.crt \
    --header "Authorization: Bearer $(cat $credentials/token)" "$nodes" |
    jq --unbuffered --raw-output "$fields" |
    while IFS='|' read -r name range address; do configure "$name" "$range" "$address"; done
  sleep 1
done

{{- define "dtj.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name alone where it says what this is, else with the chart's behind it. Helm lets a release have names that
       a Service cannot have. */ -}}
{{- define "dtj.fullname" -}}
{{- $name := .Release.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if not (contains (include "dtj.name" .) .Release.Name) -}}
{{- $name = printf "%s-%s" .Release.Name (include "dtj.name" .) -}}
{{- end -}}
{{- $name = $name | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%s cannot name a Service: give the release a name of lower-case letters, digits and - that begins with a letter, or set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* Of what has no namespace: several releases of one name, each with namespaces of its own to watch, do not meet. */ -}}
{{- define "dtj.clusterWideName" -}}
{{- include "dtj.fullname" . -}}
{{- if .Values.watchNamespaces -}}-{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{- /* Operators that watch all namespaces elect one leader, whatever their release is called. */ -}}
{{- define "dtj.leaseName" -}}
{{- if .Values.watchNamespaces -}}{{ include "dtj.fullname" . }}{{- else -}}dtj-operator{{- end -}}
{{- end -}}

{{- /* Never the namespace's own "default": every pod there that names no account would get the operator's rights. */ -}}
{{- define "dtj.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "dtj.fullname" . -}}
{{- else -}}
{{- fail "serviceAccount.create is false: name the account that is there in serviceAccount.name" -}}
{{- end -}}
{{- end -}}

{{- define "dtj.selector" -}}
app.kubernetes.io/name: {{ include "dtj.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dtj.chartLabels" -}}
{{ include "dtj.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Labels and annotations of an object: `root`, and its own `labels` and `annotations`, which win over the common ones. */ -}}
{{- define "dtj.metadata" -}}
{{- $values := .root.Values -}}
labels: {{- toYaml (merge (include "dtj.chartLabels" .root | fromYaml) (.labels | default dict) $values.commonLabels) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) $values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "dtj.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- $name := .Values.image.repository -}}
{{- if $registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" $registry) $name -}}{{- end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $name .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* Of the release and of an umbrella chart, where some give names alone. */ -}}
{{- define "dtj.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /* What the operator does with jobs and their children, in every namespace it works in. */ -}}
{{- define "dtj.workRules" -}}
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs]
  verbs: [get, list, watch, delete] # delete: ttlSecondsAfterFinished
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs/status]
  verbs: [patch]
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs/finalizers]
  verbs: [update] # asked of whoever sets blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.networkPolicy.perJob }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
{{- end }}
{{- end -}}

{{- /* Metadata of an object of a monitoring system: `name`, `root`, and its values as `values`. */ -}}
{{- define "dtj.monitorMetadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace | quote }}
{{ include "dtj.metadata" (dict "root" .root "labels" .values.labels "annotations" .values.annotations) }}
{{- end -}}

{{- /* How often an endpoint is scraped, where the values say so. */ -}}
{{- define "dtj.scrapeTimes" -}}
{{- with .interval }}
interval: {{ . }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- end -}}

{{- /* Every training pod. Users' templates cannot remove this label. */ -}}
{{- define "dtj.trainerSelector" -}}
matchExpressions: [{key: dtj.dev/job-uid, operator: Exists}]
{{- end -}}

{{- /* The groups of files/alerts.yaml, changed by metrics.prometheusRule. */ -}}
{{- define "dtj.alertGroups" -}}
{{- $values := .Values.metrics.prometheusRule }}
{{- range .Files.Get "files/alerts.yaml" | fromYamlArray }}
{{- $name := .name }}
{{- $rules := list }}
{{- range .rules }}
{{- $changes := index $values.alerts .alert | default dict }}
{{- if ne $changes.enabled false }}
{{- $labels := merge (dict) (pick $changes "severity") $values.ruleLabels .labels }}
{{- $page := printf "%s#%s" ($values.runbookUrl | default "docs/howto/alerts.md") (lower .alert) }}
{{- $annotations := merge (dict (ternary "runbook_url" "runbook" (ne $values.runbookUrl "")) $page) .annotations }}
{{- $rules = append $rules (merge (dict "labels" $labels "annotations" $annotations) (pick $changes "for") .) }}
{{- end }}
{{- end }}
{{- with $rules }}
- name: {{ $name }}
  rules: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
{{- end -}}

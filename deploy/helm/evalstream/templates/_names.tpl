{{- define "evalstream.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "evalstream.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "evalstream.selector" . }}
{{- end }}

{{- define "evalstream.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "evalstream.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "evalstream.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "evalstream.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/*
The configuration file: what the chart knows, and over it what the values say. Given is a list: the root, and the kind of
workload. Pods of a StatefulSet keep their names, so Kafka may keep their partitions for them while they restart; with
the names of a Deployment's pods, which never come again, it would wait for nobody.
*/}}
{{- define "evalstream.config" -}}
{{- $root := index . 0 }}
{{- $kafka := ternary (dict "group_instance_id" "${env:POD_NAMESPACE}.${env:POD_NAME}") dict (eq (index . 1) "StatefulSet") }}
{{- $open := dict "host" "0.0.0.0" "insecure" true }}
{{- $known := dict
  "log" (dict "kind" "kafka" "kafka" $kafka)
  "receive" (dict
    "otlp_http" (merge (dict "port" $root.Values.service.otlpPort) $open)
    "otlp_grpc" (merge (dict "port" $root.Values.service.otlpGrpcPort) $open))
  "export" (dict "prometheus" (dict "host" "0.0.0.0" "port" $root.Values.service.metricsPort)) }}
{{- if $root.Values.stages.page.enabled }}{{ $_ := set $known "page" dict }}{{ end }}
{{- toYaml (mergeOverwrite $known (deepCopy $root.Values.config)) }}
{{- end }}

{{/* The part of the configuration that only a start reads (collector/config/live_part.py); a change of it restarts the pods. */}}
{{- define "evalstream.startConfig" -}}
{{- $config := include "evalstream.config" . | fromYaml }}
{{- $watcher := dig "alerts" "watcher" dict $config }}
{{- toYaml (omit $config "judges" "juries" "evaluators" "monitors" "evaluate" "alerts" "golden" "canary" "cascades" "traffic" "log_level") }}
{{ toYaml $watcher }}
{{- end }}

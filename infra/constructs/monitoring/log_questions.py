"""What the runbook asks of the logs, as saved queries of CloudWatch Logs Insights.

Syntax: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
"""

# NGINX's combined access log: … "POST /invocations HTTP/1.1" 200 512 "-" "…"
_ACCESS = r'parse @message /"(?<method>[A-Z]+) (?<path>\S+) [^"]*" (?<status>\d{3}) (?<bytes>\d+)/'

QUESTIONS = {
    "answers by status and minute": f"""\
{_ACCESS}
| filter path like "/invocations" or path like "/invoke"
| stats count(*) as answers by bin(1m), status""",
    "refused requests by instance": f"""\
{_ACCESS}
| filter status in ["429", "503"]
| stats count(*) as refused by @logStream
| sort refused desc""",
    "errors and their first lines": """\
fields @timestamp, @logStream, @message
| filter @message like /ERROR|CRITICAL|Traceback|Error:/
| sort @timestamp desc
| limit 200""",
    "worker timeouts and kills": """\
fields @timestamp, @logStream, @message
| filter @message like /WORKER TIMEOUT|was sent SIGKILL|due to signal 9|unexpected .* exit/
| sort @timestamp desc
| limit 200""",
    "model loads": """\
fields @timestamp, @logStream, @message
| filter @message like /servable version|no SavedModel bundles found/
| sort @timestamp desc
| limit 200""",
    "last words of an instance": """\
stats latest(@message) as last, max(@timestamp) as at by @logStream
| sort at asc""",
}
